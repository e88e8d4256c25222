//! A rush on the last unit.

use crate::on_each_backend;
use crate::support::verdicts::{expect_recorded, expect_sold_out_letters, orders_for, verdicts_of};
use crate::support::{Backend, SOON, Sandbox, runs};

on_each_backend!(one_unit_goes_to_exactly_one_of_200_orders);

async fn one_unit_goes_to_exactly_one_of_200_orders(backend: Backend) {
    for _ in 0..runs() {
        let mut sandbox = Sandbox::ready(backend).await;
        // Small enough that no worker can take all the orders: they race.
        sandbox.set("broker.prefetch", 20);
        sandbox.stock("SNKR-42", 1).await;
        let listener = sandbox.rabbit.listen().await;
        let workers = sandbox.workers(3).await;
        let orders = orders_for(&["SNKR-42"], 200);
        sandbox.rabbit.send(orders.values()).await;
        listener.wait_for(200, SOON).await;
        sandbox.finish(workers).await;

        let events = listener.events();
        assert_eq!(events.len(), 200, "without a fault no event comes twice");
        let verdicts = verdicts_of(&events);
        assert_eq!((verdicts.reserved.len(), verdicts.rejected.len()), (1, 199));
        let sql = sandbox.sql().await;
        expect_recorded(&sql, &verdicts).await;
        assert_eq!(sql.available().await["SNKR-42"], 0);
        assert_eq!(sandbox.rabbit.count("dead.lost-race").await, 199, "without a fault no dead letter comes twice");
        expect_sold_out_letters(&sandbox, &orders, &verdicts.rejected).await;
        sandbox.audit().await;
    }
}
