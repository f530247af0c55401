"""Speaks for the Ankusa SDK for Python in the tests of package peers.

Each line of standard input is a request, and its answer is one line of JSON.

A message in base64 is decoded. The answer has the fields of the decoded message under
their names on the wire ("body" in base64), what the SDK computes from them, or why it
refused the message.

"redeem" and a JSON object in base64 is a claim to redeem: "base_url", "headers", "timeout"
in seconds, "ref" and "sha256". The answer has the body in base64, or why there is none.
"""

import base64
import dataclasses
import json
import sys

from ankusa.claim_check import (
    ClaimCheckClient,
    ClaimCheckError,
    ClaimCheckUnavailableError,
    ClaimIntegrityError,
    ClaimNotFoundError,
    ClaimRejectedError,
    InvalidClaimRefError,
)
from ankusa.message import InvalidMessageError, decode_message, idempotency_key

# The SDK's errors under the names that both peers use.
REDEEM_CODES = {
    InvalidClaimRefError: "invalid_ref",
    ClaimNotFoundError: "not_found",
    ClaimRejectedError: "rejected",
    ClaimIntegrityError: "integrity",
    ClaimCheckUnavailableError: "unavailable",
}


def decoded(message):
    fields = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
    fields["body"] = fields.pop("body_base64")
    fields["key"] = idempotency_key(message)
    fields["key_with_replay"] = idempotency_key(message, include_replay=True)
    return {"decoded": fields}


def refused(err):
    # The SDK documents one class; any other one escapes from a consumer that catches it.
    return {
        "refusal": {
            "class": type(err).__name__,
            "code": getattr(err, "code", None) or "",
            "field": getattr(err, "field", None) or "",
            "message": str(err) if isinstance(err, InvalidMessageError) else "",
        }
    }


def decode(value):
    try:
        message = decode_message(value)
    except Exception as err:
        return refused(err)
    return decoded(message)


def redeem(claim):
    try:
        with ClaimCheckClient(claim["base_url"], headers=claim["headers"], timeout=claim["timeout"]) as client:
            body = client.redeem(claim["ref"], claim["sha256"])
    except Exception as err:
        return {
            "refusal": {
                "class": type(err).__name__,
                "code": REDEEM_CODES.get(type(err), ""),
                "retryable": isinstance(err, ClaimCheckError) and err.retryable,
                "status": getattr(err, "status", 0),
                "body": json.dumps(getattr(err, "body", None)),
            }
        }
    return {"redeemed": base64.b64encode(body).decode()}


def answer(line):
    command, _, argument = line.rpartition(b" ")
    if command == b"redeem":
        return redeem(json.loads(base64.b64decode(argument)))
    return decode(base64.b64decode(argument))


for line in sys.stdin.buffer:
    print(json.dumps(answer(line.rstrip(b"\n"))), flush=True)
