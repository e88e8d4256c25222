//! A topology of its own for each test, plain access to the broker beside the module, and a link that can be cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeleteOptions};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use lastunit::broker::client::Observer;
use lastunit::broker::topology::Topology;
use lastunit::broker::{Consumer, Delivery, Event, Names, Publisher};
use lastunit::config::{Address, Settings};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::wait::{equal, eventually};

/// Longer than anything here takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// One test's exchanges and queues.
pub struct Place {
    pub settings: Settings,
    pub names: Names,
    connection: Connection,
    pub channel: Channel,
}

impl Place {
    /// Declares a topology under a new prefix, with short delays.
    pub async fn new(test: &str) -> Self {
        Self::with(test, |_| {}).await
    }

    /// The same, with other settings.
    pub async fn with(test: &str, adapt: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::load(None, []).unwrap();
        settings.broker.url = Address::new(url());
        settings.broker.name_prefix = unique(test);
        settings.retry.delays_ms = vec![50, 60];
        adapt(&mut settings);
        let options = ConnectionProperties::default();
        let connection = Connection::connect(&url(), options).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        let names = Names::new(&settings.broker.name_prefix);
        Topology::new(&settings.broker, &settings.retry).inspect(&settings.broker).await.unwrap();
        Self { settings, names, connection, channel }
    }

    pub async fn consumer(&self) -> Consumer {
        Consumer::start(&self.settings.broker, &self.settings.retry).await.unwrap()
    }

    pub async fn publisher(&self) -> Publisher {
        Publisher::connect(&self.settings.broker).await.unwrap()
    }

    pub async fn observer(&self) -> Observer {
        Observer::connect(&self.settings.broker).await.unwrap()
    }

    /// Sends as a client without this module would.
    pub async fn send(&self, body: &[u8], properties: BasicProperties) {
        let options = BasicPublishOptions::default();
        let exchange = self.names.orders().into();
        let sent = self.channel.basic_publish(exchange, "shop.web".into(), options, body, properties).await.unwrap();
        assert!(sent.await.unwrap().is_ack());
    }

    /// Sends `0`, `1`, … as bodies.
    pub async fn send_numbers(&self, count: usize) {
        for number in 0..count {
            self.send(number.to_string().as_bytes(), BasicProperties::default()).await;
        }
    }

    pub async fn delete_queue(&self, queue: &str) {
        self.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
    }

    /// Waits until so many messages wait in a queue.
    pub async fn wait_for_count(&self, queue: &str, count: u64) {
        let observer = self.observer().await;
        let what = format!("{queue} holds {count} messages");
        eventually(&what, DEADLINE, async || equal(observer.count(queue).await.unwrap(), count)).await;
    }

    /// Leaves nothing behind.
    pub async fn clean_up(self) {
        Topology::new(&self.settings.broker, &self.settings.retry).delete(&self.settings.broker).await.unwrap();
        self.connection.close(200, "done".into()).await.unwrap();
    }
}

/// The broker to test with.
pub fn url() -> String {
    std::env::var("LASTUNIT_TEST_RABBITMQ_URL").unwrap_or_else(|_| "amqp://guest:guest@127.0.0.1:5672/%2f".into())
}

fn unique(test: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("test.{test}.{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The next event, whatever it is.
pub async fn next(consumer: &mut Consumer) -> Event {
    tokio::time::timeout(DEADLINE, consumer.events.recv()).await.expect("an event in time").expect("a live consumer")
}

/// The next delivery; lost sessions are passed over.
pub async fn delivery(consumer: &mut Consumer) -> Delivery {
    loop {
        match next(consumer).await {
            Event::Delivery(delivery) => return delivery,
            Event::Lost { .. } => {}
        }
    }
}

/// The end of a session, past deliveries.
pub async fn lost(consumer: &mut Consumer) -> u64 {
    loop {
        match next(consumer).await {
            Event::Delivery(_) => {}
            Event::Lost { session } => return session,
        }
    }
}

/// Takes so many deliveries. The first is acknowledged, because a consumer takes more than one only after that.
pub async fn take(consumer: &mut Consumer, count: usize) -> Vec<Arc<Delivery>> {
    let mut taken = Vec::with_capacity(count);
    while taken.len() < count {
        let delivery = delivery(consumer).await;
        if taken.is_empty() {
            consumer.control.ack(vec![delivery.tag]);
        }
        taken.push(Arc::new(delivery));
    }
    taken
}

/// A link to the broker that can be cut.
pub struct Link {
    pub url: Address,
    cut: watch::Sender<()>,
}

impl Link {
    pub async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut url: url::Url = url().parse().unwrap();
        let target = (url.host_str().unwrap().to_owned(), url.port().unwrap_or(5672));
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(port)).unwrap();
        let (cut, watch) = watch::channel(());
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(forward(near, target.clone(), watch.clone()));
            }
        });
        Self { url: Address::new(url), cut }
    }

    /// Cuts all connections; new ones are let through.
    pub fn cut(&self) {
        self.cut.send(()).unwrap();
    }
}

async fn forward(mut near: TcpStream, target: (String, u16), mut cut: watch::Receiver<()>) {
    cut.mark_unchanged();
    let mut far = TcpStream::connect(target).await.unwrap();
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
        _ = cut.changed() => {}
    }
}
