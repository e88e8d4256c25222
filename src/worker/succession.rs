//! How one batch follows another on the same SKUs without a gap: it takes its leases while the one before it commits.
//!
//! The leases of the second are newer, so its tokens are higher; it waits for the end of the first before it reads. Nothing
//! rests on that wait but the quality of the plan: were the first to commit after the second, the fence would refuse it.

use std::collections::{HashMap, HashSet};

use tokio::sync::{mpsc, watch};

use super::waiting::BatchId;
use crate::lease::Attempt;
use crate::order::Sku;

/// SKUs that the next batch may go on with already.
#[derive(Debug)]
pub struct Loan {
    /// The batch that is about to commit.
    pub lender: BatchId,
    /// Whose leases the next one's succeed.
    pub attempt: Attempt,
    /// Of these.
    pub skus: Vec<Sku>,
}

/// The batches that have not ended.
#[derive(Debug)]
pub struct Succession {
    running: HashMap<BatchId, watch::Receiver<()>>,
    loans: mpsc::UnboundedSender<Loan>,
}

/// One batch's place among them. Dropping it is the batch's end.
#[derive(Debug)]
pub struct Place {
    batch: BatchId,
    before: Vec<watch::Receiver<()>>,
    loans: mpsc::UnboundedSender<Loan>,
    _end: watch::Sender<()>,
}

impl Succession {
    /// No batch yet; the other half receives what is lent.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Loan>) {
        let (loans, lent) = mpsc::unbounded_channel();
        (Self { running: HashMap::new(), loans }, lent)
    }

    /// A batch starts, behind others that lent it SKUs.
    pub fn start(&mut self, batch: BatchId, behind: &HashSet<BatchId>) -> Place {
        let (end, ended) = watch::channel(());
        let before = behind.iter().filter_map(|lender| self.running.get(lender).cloned()).collect();
        self.running.insert(batch, ended);
        Place { batch, before, loans: self.loans.clone(), _end: end }
    }

    /// It has ended.
    pub fn end(&mut self, batch: BatchId) {
        self.running.remove(&batch);
    }
}

impl Place {
    /// Waits for the end of all batches before this one.
    pub async fn comes(&mut self) {
        for mut before in self.before.drain(..) {
            // Nothing is ever sent: the error is the end.
            while before.changed().await.is_ok() {}
        }
    }

    /// Lets the next batch go on with these SKUs, in succession to the leases of this attempt.
    pub fn lend(&self, attempt: Attempt, skus: Vec<Sku>) {
        // Without the worker's loop there is no next batch.
        self.loans.send(Loan { lender: self.batch, attempt, skus }).ok();
    }
}
