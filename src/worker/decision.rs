//! PURE. A verdict becomes a decision to be recorded, with the event that tells it.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use crate::config::Settings;
use crate::fence::FenceToken;
use crate::ledger::{NewDecision, NewLine};
use crate::order::{Order, Sku};
use crate::outcome::event_body;
use crate::plan::Verdict;

/// The decision on an order. `tokens` are those of its SKUs, under which a reservation's lines are taken.
pub(super) fn decision(
    settings: &Settings,
    order: &Order,
    verdict: &Verdict,
    decided_at: DateTime<Utc>,
    tokens: &HashMap<Sku, FenceToken>,
) -> NewDecision {
    let hold = order.hold.unwrap_or(settings.order.hold_ms.duration());
    let reserved = *verdict == Verdict::Reserved;
    let expires_at = (reserved && !hold.is_zero()).then(|| decided_at + hold);
    let lines = order.lines.iter().filter(|_| reserved).filter_map(|line| {
        let token = *tokens.get(&line.sku)?;
        Some(NewLine { sku: line.sku.clone(), quantity: line.quantity, token })
    });
    NewDecision {
        order_id: order.id.clone(),
        rejected: match verdict {
            Verdict::Reserved => None,
            Verdict::Rejected { reason, .. } => Some(*reason),
        },
        content_hash: order.content_hash,
        event: event_body(&settings.broker.name_prefix, order, verdict, decided_at, expires_at),
        expires_at,
        lines: lines.collect(),
    }
}
