//! The race itself: workers wait, orders come in, events tell who got what.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::stream;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::MissedTickBehavior;

use super::crew::Crew;
use super::report::Report;
use super::stage::Stage;
use super::tally::Tally;
use super::{Error, Size};
use crate::broker::client::{Listener, Observer, publish_orders};
use crate::broker::{DeadQueue, Names, Publisher};

/// Without a decision for so long, something is wrong.
const STALLED_AFTER: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs it from an empty database to the report.
pub(super) async fn run(size: Size, stage: &Stage, crew: &mut Crew) -> Result<Report, Error> {
    let sku = stage.sku();
    for step in [&["migrate", "up"][..], &["topology"], &["stock", "set", &sku, &size.units.to_string()]] {
        crew.run(step).await?;
    }
    let names = Names::new(&stage.broker().name_prefix);
    let observer = Observer::connect(stage.broker()).await?;
    let listener = observer.listen(&names.outcomes(), "#").await?;
    for _ in 0..size.workers {
        crew.start_worker()?;
    }
    wait_for_workers(&observer, &names, size.workers, crew).await?;

    let start = Instant::now();
    let bar = progress_bar(size.orders);
    let (_, tally) = tokio::try_join!(send(size, stage, &names), watch(listener, size.orders, crew, &bar))?;
    let elapsed_ms = start.elapsed().as_millis();
    bar.finish_and_clear();
    // In good order: what a worker still has to acknowledge is acknowledged before anything is counted.
    crew.stop().await?;
    Ok(Report {
        sku,
        units: size.units.into(),
        orders: size.orders as usize,
        workers: size.workers as usize,
        winners: tally.winners().into_iter().map(str::to_owned).collect(),
        lost: tally.lost().into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect(),
        events: tally.events(),
        dead_letters: dead_letters(&observer, &names).await?,
        audit_clean: crew.output(&["audit"]).await?.status.success(),
        elapsed_ms,
        faults: tally.faults().map(str::to_owned).collect(),
    }
    .judged())
}

/// From here it is a race: no worker has a start.
async fn wait_for_workers(observer: &Observer, names: &Names, workers: u32, crew: &mut Crew) -> Result<(), Error> {
    let mut look = tokio::time::interval(LOOK_EVERY);
    while observer.consumers(&names.orders()).await? < u64::from(workers) {
        crew.check()?;
        look.tick().await;
    }
    Ok(())
}

async fn send(size: Size, stage: &Stage, names: &Names) -> Result<u64, Error> {
    let publisher = Publisher::connect(stage.broker()).await?;
    let orders = (1..=size.orders).map(|number| {
        let id = stage.order_id(number);
        let body = serde_json::json!({"order_id": id, "sku": stage.sku(), "quantity": 1});
        (Some(id), body.to_string().into_bytes())
    });
    Ok(publish_orders(&publisher, names, stream::iter(orders), |_| ()).await?)
}

/// Counts events until every order is decided.
async fn watch(mut listener: Listener, orders: u32, crew: &mut Crew, bar: &ProgressBar) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let mut progressed = Instant::now();
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while tally.decided() < orders as usize {
        tokio::select! {
            heard = listener.next() => {
                tally.add(&heard?.body);
                progressed = Instant::now();
            }
            _ = look.tick() => {
                bar.set_position(tally.decided() as u64);
                bar.set_message(format!("{} reserved", tally.winners().len()));
                crew.check()?;
                if progressed.elapsed() > STALLED_AFTER {
                    return Err(Error::Stalled { decided: tally.decided(), orders, limit: STALLED_AFTER });
                }
            }
        }
    }
    Ok(tally)
}

/// Messages in each dead-letter queue that holds any.
async fn dead_letters(observer: &Observer, names: &Names) -> Result<BTreeMap<String, u64>, Error> {
    let mut counts = BTreeMap::new();
    for queue in DeadQueue::ALL {
        let count = observer.count(&names.dead_queue(queue)).await?;
        if count > 0 {
            counts.insert(names.dead_queue(queue), count);
        }
    }
    Ok(counts)
}

fn progress_bar(orders: u32) -> ProgressBar {
    let style = ProgressStyle::with_template("  decided {bar:40.green} {pos}/{len}  {msg}");
    // A template that cannot be read is a slip of the pen; the demo goes on with the plain bar.
    ProgressBar::new(orders.into()).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
