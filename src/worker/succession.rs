//! How one batch follows another on the same SKUs without a gap: it takes its leases while the one before it commits.
//!
//! The leases of the second are newer, so its tokens are higher; it waits for the end of the first before it reads. Nothing
//! rests on that wait but the sequence of the orders: were the first to commit after the second, the fence would refuse it.
//!
//! The wait is not for long. When the first one's commit hangs (on a row that somebody has locked), the second gives up, so
//! that its other SKUs are not held up; and when orders of the first go back to where they waited, so do those of the
//! second, behind them.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::dispatch::Report;
use super::waiting::BatchId;
use crate::lease::Attempt;
use crate::order::Sku;

/// How a batch has ended, for those behind it. One that ends without a word has failed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum End {
    /// All orders for the SKUs that it lent are decided.
    Done,
    /// Some go back to where they waited: those behind them must do so, too.
    #[default]
    Undone,
}

/// The batches that have not ended.
#[derive(Debug)]
pub struct Succession {
    running: HashMap<BatchId, watch::Receiver<End>>,
    reporter: mpsc::UnboundedSender<Report>,
}

/// One batch's place among them. Dropping it is the batch's end: not before its report.
#[derive(Debug)]
pub struct Place {
    batch: BatchId,
    before: Vec<watch::Receiver<End>>,
    patience: Duration,
    /// Time spent behind others.
    pub waited: Duration,
    /// How it went.
    pub end: watch::Sender<End>,
    reporter: mpsc::UnboundedSender<Report>,
}

impl Succession {
    /// No batch yet. What is lent is reported.
    pub fn new(reporter: mpsc::UnboundedSender<Report>) -> Self {
        Self { running: HashMap::new(), reporter }
    }

    /// A batch starts, behind others that lent it SKUs, for which it waits so long.
    pub fn start(&mut self, batch: BatchId, behind: &HashSet<BatchId>, patience: Duration) -> Place {
        let (end, ended) = watch::channel(End::default());
        let before = behind.iter().filter_map(|lender| self.running.get(lender).cloned()).collect();
        self.running.insert(batch, ended);
        Place { batch, before, patience, waited: Duration::ZERO, end, reporter: self.reporter.clone() }
    }

    /// It has ended.
    pub fn end(&mut self, batch: BatchId) {
        self.running.remove(&batch);
    }
}

impl Place {
    /// Waits for the end of all batches before this one. Whether they are all done; otherwise this one must go back.
    pub async fn comes(&mut self) -> bool {
        if self.before.is_empty() {
            return true;
        }
        let since = Instant::now();
        let all = tokio::time::timeout(self.patience, async {
            let mut done = true;
            for mut before in self.before.drain(..) {
                // Its end is that nothing more can be said.
                while before.changed().await.is_ok() {}
                done &= *before.borrow() == End::Done;
            }
            done
        });
        let all = all.await;
        self.waited += since.elapsed();
        all.unwrap_or(false)
    }

    /// Lets the next batch go on with these SKUs, in succession to the leases of this attempt.
    pub fn lend(&self, attempt: Attempt, skus: Vec<Sku>) {
        // Without the worker's loop there is no next batch.
        self.reporter.send(Report::Lent { batch: self.batch, attempt, skus }).ok();
    }
}
