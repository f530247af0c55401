//! Decodes queue messages with the Ankusa SDK for Rust, for the tests of package peers.
//!
//! Each line of standard input is one message in base64. The answer is one line of JSON:
//! the fields of the decoded message under their names on the wire (`body` in base64), what
//! the SDK computes from them, or why it refused the message.

use std::io::{self, BufRead, Write};

use ankusa::{InvalidMessageError, Message, decode_message};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let value = STANDARD
            .decode(line?.trim_end())
            .map_err(io::Error::other)?;
        let answer = match decode_message(&value) {
            Ok(message) => decoded(message),
            Err(err) => refused(&err),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
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
