"""Decodes queue messages with the Ankusa SDK for Python, for the tests of package peers.

Each line of standard input is one message in base64. The answer is one line of JSON:
the fields of the decoded message under their names on the wire ("body" in base64), what
the SDK computes from them, or why it refused the message.
"""

import base64
import dataclasses
import json
import sys

from ankusa.message import InvalidMessageError, decode_message, idempotency_key


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


def answer(value):
    try:
        message = decode_message(value)
    except Exception as err:
        return refused(err)
    return decoded(message)


for line in sys.stdin.buffer:
    print(json.dumps(answer(base64.b64decode(line))), flush=True)
