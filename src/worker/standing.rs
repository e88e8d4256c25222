//! Tells the worker's health how its services stand.

use std::sync::Arc;

use tokio::sync::watch;

use super::Trouble;
use crate::broker::Subscription;
use crate::health::{Health, Phase, Service};

impl Trouble {
    /// Whose trouble it is.
    pub(super) const fn service(&self) -> Service {
        match self {
            Self::Ledger(_) => Service::Database,
            Self::Lease(_) => Service::Redis,
        }
    }
}

/// The worker begins, with connections that are open, and follows its subscription until that is closed.
pub fn begin(health: &Arc<Health>, subscription: watch::Receiver<Subscription>) {
    services_work(health);
    health.turned(None);
    health.lock().enter(Phase::Working);
    tokio::spawn(follow(Arc::clone(health), subscription));
}

/// A batch went through, or a probe did.
pub fn services_work(health: &Health) {
    let mut readiness = health.lock();
    readiness.back(Service::Database);
    readiness.back(Service::Redis);
}

/// A service failed.
pub fn service_fails(health: &Health, trouble: &Trouble) {
    health.lock().away(trouble.service(), trouble.to_string());
}

async fn follow(health: Arc<Health>, mut subscription: watch::Receiver<Subscription>) {
    loop {
        let now = subscription.borrow_and_update().clone();
        match now {
            Subscription::Up => health.lock().back(Service::Broker),
            Subscription::Between(reason) => health.lock().unused(Service::Broker, reason),
            Subscription::Lost(cause) => health.lock().away(Service::Broker, cause),
        }
        if subscription.changed().await.is_err() {
            return health.lock().unused(Service::Broker, "closed");
        }
    }
}
