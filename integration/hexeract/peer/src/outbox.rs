//! The commands on outbox tables in a PostgreSQL or SQLite database.
//!
//! `{"schema": ...}` makes the tables by the crates' own statements and is answered by
//! `{"made": table}`; `{"publish": ...}` inserts an event in a transaction of its own and is
//! answered by `{"published": id}`; `{"enqueue": ...}` by `{"enqueued": bool}`; `{"print": ...}`
//! by `{"printed": text}`; `{"work": ...}` by `{"working": table}`, and from then on every event
//! that a handler is given writes `{"handled": ...}`.

use std::time::Duration;

use hexeract::core::HandlerContext;
use hexeract::outbox::{
    Event, Handler, IdempotentOutboxEnqueue, OutboxEnvelope, OutboxError, OutboxPublisher,
};
use hexeract::outbox_sql::{
    PgOutboxPublisher, PgOutboxWorkerBuilder, SqliteOutboxPublisher, SqliteOutboxWorkerBuilder,
    postgres, sqlite,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{PgPool, SqlitePool};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{Lines, OrderPlaced, refusal, say};

impl Event for OrderPlaced {
    const EVENT_TYPE: &'static str = "orders.placed";
}

/// An event of any shape; its twin is Anything of package hexeract.
#[derive(Debug, Serialize, Deserialize)]
struct Anything {
    value: Value,
}

impl Event for Anything {
    const EVENT_TYPE: &'static str = "tests.anything";
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    Schema(Schema),
    Publish(Publish),
    Enqueue(Enqueue),
    Print(Print),
    Work(Work),
}

#[derive(Deserialize)]
struct Schema {
    table: String,
}

#[derive(Deserialize)]
struct Publish {
    table: String,
    order: Option<OrderPlaced>,
    /// The value of an Anything, as JSON in a text: it may be as deep as a command may not.
    anything: Option<String>,
    subject_id: Option<Uuid>,
    /// Whether the transaction is rolled back.
    rollback: bool,
}

#[derive(Deserialize)]
struct Enqueue {
    table: String,
    event_id: Uuid,
    event_type: String,
    payload: String,
}

#[derive(Deserialize)]
struct Print {
    event_id: Uuid,
    order: OrderPlaced,
}

#[derive(Clone, Deserialize)]
struct Work {
    table: String,
    dead_letter: Option<String>,
    batch: usize,
    max_attempts: u32,
    poll_ms: u64,
    retry_base_ms: u64,
    retry_max_ms: u64,
    /// The time of a handler, and of a lease per event.
    timeout_ms: u64,
    /// Orders with this note fail.
    fail: Option<String>,
}

struct Printer {
    fail: Option<String>,
}

impl Printer {
    fn handled<E: Event>(&self, event: &E, failed: bool, ctx: &HandlerContext) -> Result<(), OutboxError> {
        say(json!({"handled": {
            "event_id": ctx.message_id.as_uuid(),
            "event_type": E::EVENT_TYPE,
            "event": event,
            "failed": failed,
        }}));
        if failed {
            return Err(OutboxError::Internal("told to fail".to_owned()));
        }
        Ok(())
    }
}

impl Handler<OrderPlaced> for Printer {
    type Error = OutboxError;

    async fn handle(&self, event: OrderPlaced, ctx: &HandlerContext) -> Result<(), OutboxError> {
        let failed = self.fail.as_ref() == Some(&event.note);
        self.handled(&event, failed, ctx)
    }
}

impl Handler<Anything> for Printer {
    type Error = OutboxError;

    async fn handle(&self, event: Anything, ctx: &HandlerContext) -> Result<(), OutboxError> {
        self.handled(&event, false, ctx)
    }
}

/// Inserts one event in a transaction of a pool.
macro_rules! publish {
    ($pool:expr, $publisher:expr, $command:expr) => {{
        let (publisher, command) = ($publisher, $command);
        let mut tx = $pool.begin().await.map_err(|err| OutboxError::Database(Box::new(err)))?;
        let id = match (&command.order, &command.anything, command.subject_id) {
            (Some(order), _, None) => publisher.publish_in_tx(&mut tx, order).await?,
            (Some(order), _, Some(id)) => publisher.publish_in_tx_with_subject(&mut tx, id, order).await?,
            (None, value, id) => {
                let value = serde_json::from_str(value.as_deref().unwrap_or("null"))?;
                let event = Anything { value };
                match id {
                    None => publisher.publish_in_tx(&mut tx, &event).await?,
                    Some(id) => publisher.publish_in_tx_with_subject(&mut tx, id, &event).await?,
                }
            }
        };
        if command.rollback {
            tx.rollback().await.map_err(|err| OutboxError::Database(Box::new(err)))?;
        } else {
            tx.commit().await.map_err(|err| OutboxError::Database(Box::new(err)))?;
        }
        Ok(id)
    }};
}

/// Starts a worker of a builder.
macro_rules! work {
    ($builder:expr, $command:expr, $cancel:expr, $workers:expr) => {{
        let command = $command;
        let mut builder = $builder
            .table_name(command.table)
            .batch_size(command.batch)
            .max_attempts(command.max_attempts)
            .poll_interval(Duration::from_millis(command.poll_ms))
            .retry_base_delay(Duration::from_millis(command.retry_base_ms))
            .retry_max_delay(Duration::from_millis(command.retry_max_ms))
            .dispatch_timeout(Duration::from_millis(command.timeout_ms))
            .register_handler::<OrderPlaced, _>(Printer { fail: command.fail })
            .register_handler::<Anything, _>(Printer { fail: None });
        if let Some(name) = command.dead_letter {
            builder = builder.dead_letter_table(name);
        }
        let worker = builder.build()?;
        let token = $cancel.clone();
        $workers.spawn(async move {
            if let Err(err) = worker.run(token).await {
                say(refusal(&err));
            }
        });
        Ok(())
    }};
}

enum Database {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

impl Database {
    async fn open(address: &str) -> Result<Self, sqlx::Error> {
        if address.starts_with("sqlite:") {
            return SqlitePoolOptions::new().max_connections(4).connect(address).await.map(Self::Sqlite);
        }
        PgPoolOptions::new().max_connections(4).connect(address).await.map(Self::Postgres)
    }

    async fn schema(&self, table: &str) -> Result<(), OutboxError> {
        match self {
            Self::Postgres(pool) => {
                postgres::ensure_schema(pool, table).await?;
                postgres::ensure_dead_letter_schema(pool, table).await
            }
            Self::Sqlite(pool) => {
                sqlite::ensure_schema(pool, table).await?;
                sqlite::ensure_dead_letter_schema(pool, table).await
            }
        }
    }

    async fn publish(&self, command: &Publish) -> Result<Uuid, OutboxError> {
        match self {
            Self::Postgres(pool) => {
                publish!(pool, PgOutboxPublisher::new(pool.clone(), &command.table)?, command)
            }
            Self::Sqlite(pool) => {
                publish!(pool, SqliteOutboxPublisher::new(pool.clone(), &command.table)?, command)
            }
        }
    }

    async fn enqueue(&self, c: &Enqueue) -> Result<bool, OutboxError> {
        let payload = c.payload.as_bytes();
        match self {
            Self::Postgres(pool) => {
                PgOutboxPublisher::new(pool.clone(), &c.table)?
                    .enqueue_idempotent(c.event_id, &c.event_type, payload)
                    .await
            }
            Self::Sqlite(pool) => {
                SqliteOutboxPublisher::new(pool.clone(), &c.table)?
                    .enqueue_idempotent(c.event_id, &c.event_type, payload)
                    .await
            }
        }
    }

    fn work(&self, c: Work, cancel: &CancellationToken, workers: &mut JoinSet<()>) -> Result<(), OutboxError> {
        match self {
            Self::Postgres(pool) => work!(PgOutboxWorkerBuilder::new(pool.clone()), c, cancel, workers),
            Self::Sqlite(pool) => work!(SqliteOutboxWorkerBuilder::new(pool.clone()), c, cancel, workers),
        }
    }
}

/// Obeys the commands on the database at the address until there are no more.
pub(crate) async fn run(address: &str, mut lines: Lines) -> Result<(), Box<dyn std::error::Error>> {
    let database = Database::open(address).await?;
    let cancel = CancellationToken::new();
    let mut workers = JoinSet::new();
    while let Some(line) = lines.next_line().await? {
        let answer = match serde_json::from_str(&line) {
            Err(err) => Ok(json!({"error": {"name": "Command", "text": err.to_string()}})),
            Ok(Command::Schema(c)) => database.schema(&c.table).await.map(|()| json!({"made": c.table})),
            Ok(Command::Publish(c)) => database.publish(&c).await.map(|id| json!({"published": id})),
            Ok(Command::Enqueue(c)) => database.enqueue(&c).await.map(|done| json!({"enqueued": done})),
            Ok(Command::Print(c)) => {
                OutboxEnvelope::new(c.event_id, &c.order).map(|e| json!({"printed": format!("{e:?}")}))
            }
            Ok(Command::Work(c)) => {
                let table = c.table.clone();
                database.work(c, &cancel, &mut workers).map(|()| json!({"working": table}))
            }
        };
        say(answer.unwrap_or_else(|err| refusal(&err)));
    }
    cancel.cancel();
    while workers.join_next().await.is_some() {}
    Ok(())
}
