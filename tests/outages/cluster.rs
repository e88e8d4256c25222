//! A cluster of three RabbitMQ nodes loses the one that leads the orders queue.

use std::collections::BTreeMap;

use crate::support::verdicts::{expect_recorded, verdicts_of};
use crate::support::wait::{SLOW_START, equal};
use crate::support::{Backend, Proxy, RabbitNode, Sandbox, Services, eventually};

const SKUS: [&str; 3] = ["SNKR-42", "LACE-7", "85123A"];
const ORDERS: usize = 600;
const UNITS: u32 = 150;

fn order(number: usize) -> (String, String) {
    let id = format!("A-{number:05}");
    let body = format!(r#"{{"order_id": "{id}", "sku": "{}", "quantity": 1}}"#, SKUS[number % SKUS.len()]);
    (id, body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_cluster_that_loses_the_leader_of_its_queues_loses_no_order() {
    let mut nodes = tokio::task::spawn_blocking(|| RabbitNode::cluster(3)).await.expect("a cluster");
    // The test looks at it through a node that stays.
    let services = Services { rabbitmq: nodes[1].url(), ..Services::shared(Backend::Postgres) };
    let mut sandbox = Sandbox::on(Backend::Postgres, services).await;
    let address = Proxy::before(nodes[0].port());
    sandbox.set("broker.url", nodes[0].url());
    sandbox.set("batch.max_orders", 5);
    sandbox.set("broker.prefetch", 20);
    // Whoever declares a queue gets its leader.
    sandbox.prepare().await;
    let leader = nodes[1].eval(&format!(
        "{{ok, Queue}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, <<\"{}\">>)), \
         element(2, amqqueue:get_pid(Queue)).",
        sandbox.rabbit.name("orders")
    ));
    assert!(leader.contains(nodes[0].name()), "{leader} leads the orders queue");
    for sku in SKUS {
        sandbox.stock(sku, UNITS).await;
    }
    let listener = sandbox.rabbit.listen().await;
    // One worker is connected to the node that will be lost, by an address that moves; the other to one that stays.
    sandbox.set("broker.url", format!("amqp://guest:guest@127.0.0.1:{}/%2f", address.port()));
    let mut workers = sandbox.workers(1).await;
    sandbox.set("broker.url", nodes[1].url());
    workers.extend(sandbox.workers(1).await);

    let orders: BTreeMap<_, _> = (0..ORDERS).map(order).collect();
    let half: Vec<_> = orders.values().take(ORDERS / 2).collect();
    sandbox.rabbit.send(half).await;
    listener.wait_for(ORDERS / 6, SLOW_START).await;
    tokio::task::block_in_place(|| nodes[0].kill());
    address.switch(nodes[2].port());
    // A queue without a leader refuses for a moment; whoever sends tries again, and an order sent twice is decided once.
    let rest: Vec<_> = orders.values().skip(ORDERS / 2).cloned().collect();
    eventually("the cluster takes orders", SLOW_START, async || sandbox.rabbit.try_send(&rest).await).await;
    let decided = || {
        let verdicts = verdicts_of(&listener.events());
        verdicts.reserved.len() + verdicts.rejected.len()
    };
    eventually("all is decided", SLOW_START, async || equal(decided(), ORDERS)).await;
    assert!(workers[0].printed().contains("consuming again"), "by way of the address that moved");
    sandbox.finish(workers).await;
    let verdicts = verdicts_of(&listener.events());
    assert_eq!(verdicts.reserved.len(), UNITS as usize * SKUS.len(), "all units are sold");
    expect_recorded(&sandbox.sql().await, &verdicts).await;
    crate::support::verdicts::expect_sold_out_letters(&sandbox, &orders, &verdicts.rejected).await;
    sandbox.audit().await;
}
