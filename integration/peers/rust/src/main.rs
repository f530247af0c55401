//! Speaks for the Ankusa SDK for Rust in the tests of package peers.
//!
//! Each line of standard input is a request, and its answer is one line of JSON.
//!
//! A message in base64 is decoded. The answer has the fields of the decoded message under
//! their names on the wire (`body` in base64), what the SDK computes from them, or why it
//! refused the message.
//!
//! `redeem` and a JSON object in base64 is a claim to redeem: `base_url`, `headers`,
//! `timeout` in seconds, `ref` and `sha256`. The answer has the body in base64, or why there
//! is none.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use ankusa::{ClaimCheckError, ClientBuilder, InvalidMessageError, Message, decode_message};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

fn main() -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let answer = match line.trim_end().strip_prefix("redeem ") {
            Some(claim) => redeem(&runtime, &serde_json::from_slice(&bytes(claim)?)?)?,
            None => match decode_message(&bytes(line.trim_end())?) {
                Ok(message) => decoded(message),
                Err(err) => refused(&err),
            },
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn bytes(text: &str) -> io::Result<Vec<u8>> {
    STANDARD.decode(text).map_err(io::Error::other)
}

fn redeem(runtime: &Runtime, claim: &Value) -> io::Result<Value> {
    let text = |name: &str| claim[name].as_str().unwrap_or_default();
    let timeout = Duration::from_secs_f64(claim["timeout"].as_f64().unwrap_or_default());
    let mut client = ClientBuilder::new(text("base_url")).timeout(timeout);
    for (name, value) in claim["headers"].as_object().into_iter().flatten() {
        client = client.header(name, value.as_str().unwrap_or_default());
    }
    let client = client.claim_check().map_err(io::Error::other)?;
    let err = match runtime.block_on(client.redeem(text("ref"), text("sha256"))) {
        Ok(body) => return Ok(json!({"redeemed": STANDARD.encode(body)})),
        Err(err) => err,
    };
    // The SDK's errors under the names that both peers use.
    let code = match &err {
        ClaimCheckError::InvalidRef(_) | ClaimCheckError::InvalidSha256 { .. } => "invalid_ref",
        ClaimCheckError::NotFound => "not_found",
        ClaimCheckError::Rejected { .. } => "rejected",
        ClaimCheckError::Integrity { .. } => "integrity",
        ClaimCheckError::Unavailable(_) => "unavailable",
        _ => "",
    };
    let (status, body) = match &err {
        ClaimCheckError::Rejected { status, body } => (status.as_u16(), body.clone()),
        _ => (0, Value::Null),
    };
    Ok(json!({"refusal": {
        "class": "ClaimCheckError",
        "code": code,
        "retryable": err.is_retryable(),
        "status": status,
        "body": body.to_string(),
    }}))
}

fn decoded(message: Message) -> Value {
    let key = message.idempotency_key(false);
    let key_with_replay = message.idempotency_key(true);
    let trusted = message.is_trusted();
    // Every field by name, so that one that a later SDK adds does not compile unseen.
    let Message {
        v,
        id,
        source_id,
        tenant_id,
        received_at,
        content_type,
        size,
        body,
        claim,
        sha256,
        dedupe_key,
        replay_id,
        idempotency_key,
        headers,
        verification,
        traceparent,
        tracestate,
        instance,
        region,
    } = message;
    json!({"decoded": {
        "v": v,
        "id": id,
        "source_id": source_id,
        "tenant_id": tenant_id,
        "received_at": received_at,
        "content_type": content_type,
        "size": size,
        "body": body.map(|body| STANDARD.encode(body)),
        "claim": claim,
        "sha256": sha256,
        "dedupe_key": dedupe_key,
        "replay_id": replay_id,
        "idempotency_key": idempotency_key,
        "headers": headers,
        "verification": verification.map(|v| json!({"status": v.status, "flagged": v.flagged})),
        "traceparent": traceparent,
        "tracestate": tracestate,
        "instance": instance,
        "region": region,
        "key": key,
        "key_with_replay": key_with_replay,
        "trusted": trusted,
    }})
}

fn refused(err: &InvalidMessageError) -> Value {
    json!({"refusal": {
        "class": "InvalidMessageError",
        "code": err.code,
        "field": err.field.unwrap_or_default(),
        "message": err.to_string(),
    }})
}
