//! Publishes and consumes Hexeract messages and events at the command of package hexeract: one
//! JSON object per line in, one per line out. The only argument is an address: of a database for
//! the commands of module outbox, else of a broker by AMQP for these:
//!
//! `{"publish": ...}` is answered by `{"published": id}` or `{"error": {...}}`. `{"work": ...}`
//! is answered by `{"working": queue}`; from then on every message that the handler is given
//! writes `{"handled": ...}`, and a worker that ends `{"error": {...}}`. The program ends when its
//! input does, after the messages in hand.

mod outbox;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use hexeract::bus::{BusError, Handler, Message, RawBusPublish, Transport};
use hexeract::bus_rabbitmq::{RabbitMqConnection, RabbitMqTransport, RabbitMqWorkerBuilder};
use hexeract::core::HandlerContext;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Stdin};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The commands.
type Lines = tokio::io::Lines<BufReader<Stdin>>;

/// The message that both sides know; its twin is OrderPlaced of package hexeract.
#[derive(Debug, Serialize, Deserialize)]
struct OrderPlaced {
    order_id: Uuid,
    note: String,
    cents: i64,
    weight: f64,
    lines: Vec<Line>,
    tags: BTreeMap<String, String>,
    coupon: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    sku: String,
    quantity: u32,
}

impl Message for OrderPlaced {
    const MESSAGE_TYPE: &'static str = "orders.placed";
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    Publish(Publish),
    Work(Work),
}

#[derive(Deserialize)]
struct Publish {
    routing_key: String,
    message: Option<OrderPlaced>,
    headers: Option<HashMap<String, String>>,
    correlation_id: Option<Uuid>,
    raw: Option<Raw>,
}

#[derive(Deserialize)]
struct Raw {
    message_id: Uuid,
    message_type: String,
    payload: String,
}

#[derive(Deserialize)]
struct Work {
    queue: String,
    max_attempts: u32,
    retry_delay_ms: u64,
    dead_letter: Option<String>,
    /// Orders with this note fail.
    fail: Option<String>,
}

struct Printer {
    fail: Option<String>,
}

impl Handler<OrderPlaced> for Printer {
    type Error = BusError;

    async fn handle(&self, message: OrderPlaced, ctx: &HandlerContext) -> Result<(), BusError> {
        let failed = self.fail.as_ref() == Some(&message.note);
        say(json!({"handled": {
            "message_id": ctx.message_id.as_uuid(),
            "correlation_id": ctx.correlation_id.as_uuid(),
            "message": message,
            "failed": failed,
        }}));
        if failed {
            return Err(BusError::Internal("told to fail".to_owned()));
        }
        Ok(())
    }
}

/// Writes one line at once, whoever else writes.
fn say(answer: Value) {
    println!("{answer}");
}

fn refusal<E: std::error::Error>(err: &E) -> Value {
    let name = format!("{err:?}");
    let name = name.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
    json!({"error": {"name": name, "text": err.to_string()}})
}

async fn publish(transport: &RabbitMqTransport, p: Publish) -> Result<Uuid, BusError> {
    match (p.raw, p.message) {
        (Some(raw), _) => transport
            .publish_raw(&p.routing_key, raw.message_id, &raw.message_type, raw.payload.as_bytes())
            .await
            .map(|()| raw.message_id),
        (None, Some(message)) => match (p.correlation_id, p.headers) {
            (Some(id), _) => transport.publish_with_correlation_id(&p.routing_key, id, &message).await,
            (None, Some(headers)) => transport.publish_with_headers(&p.routing_key, headers, &message).await,
            (None, None) => transport.publish(&p.routing_key, &message).await,
        },
        (None, None) => Err(BusError::Internal("nothing to publish".to_owned())),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let uri = std::env::args().nth(1).ok_or("no address")?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    if !uri.starts_with("amqp") {
        return outbox::run(&uri, lines).await;
    }
    let transport = RabbitMqTransport::new(&uri).await?;
    let cancel = CancellationToken::new();
    let mut workers = tokio::task::JoinSet::new();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line) {
            Err(err) => say(json!({"error": {"name": "Command", "text": err.to_string()}})),
            Ok(Command::Publish(p)) => match publish(&transport, p).await {
                Ok(id) => say(json!({"published": id})),
                Err(err) => say(refusal(&err)),
            },
            Ok(Command::Work(w)) => {
                let queue = w.queue.clone();
                let mut builder = RabbitMqWorkerBuilder::new(RabbitMqConnection::connect(&uri).await?)
                    .queue(w.queue)
                    .max_attempts(w.max_attempts)
                    .retry_delay(Duration::from_millis(w.retry_delay_ms))
                    .register_handler(Printer { fail: w.fail });
                if let Some(name) = w.dead_letter {
                    builder = builder.dead_letter_routing_key(name);
                }
                let worker = builder.build()?;
                let token = cancel.clone();
                workers.spawn(async move {
                    if let Err(err) = worker.run(token).await {
                        say(refusal(&err));
                    }
                });
                say(json!({"working": queue}));
            }
        }
    }
    cancel.cancel();
    while workers.join_next().await.is_some() {}
    Ok(())
}
