"""Builds and reads packs of claims, for the tests of package peers.

It is written from the description of the layout and shares nothing with the library's own
encoder: the headers are packed here, and zipfile, Python's own, reads the result.

    pack.py build FILE    writes a pack. Standard input is a JSON object: "pack_id", and
                          "claims", each with "id", "body" (base64; null: empty), "content_type" and
                          "received_at".
    pack.py read FILE     tests a pack as `unzip -t` does and prints its entries as a JSON
                          object of names and contents (base64), with the order in "names".
"""

import base64
import hashlib
import json
import struct
import sys
import zipfile
import zlib

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
DATE = 0x0021  # 1 January 1980


def ulid_number(text):
    number = 0
    for letter in text:
        number = number * 32 + ALPHABET.index(letter)
    return number


def ulid_text(number):
    letters = ""
    for _ in range(26):
        number, digit = divmod(number, 32)
        letters = ALPHABET[digit] + letters
    return letters


class Pack:
    def __init__(self):
        self.data = b""
        self.directory = b""
        self.entries = 0

    def add(self, name, content):
        name, crc = name.encode(), zlib.crc32(content)
        offset = len(self.data)
        self.data += struct.pack(
            "<IHHHHHIIIHH", 0x04034B50, 20, 0, 0, 0, DATE, crc, len(content), len(content), len(name), 0
        )
        self.data += name + content
        self.directory += struct.pack(
            "<IHHHHHHIIIHHHHHII",
            *(0x02014B50, 20, 20, 0, 0, 0, DATE, crc, len(content), len(content), len(name), 0, 0, 0, 0, 0, offset),
        )
        self.directory += name
        self.entries += 1

    def close(self):
        end = struct.pack(
            "<IHHHHIIH", 0x06054B50, 0, 0, self.entries, self.entries, len(self.directory), len(self.data), 0
        )
        return self.data + self.directory + end


def build(request):
    first = ulid_number(request["pack_id"])
    assert first % 65536 == 0, "a pack's own id has position 0"
    bodies = [base64.b64decode(claim["body"] or "") for claim in request["claims"]]
    index, manifest = b"", []
    offset = 30 + len("index.bin") + 8 * len(bodies)
    for position, (claim, body) in enumerate(zip(request["claims"], bodies)):
        claim_id = ulid_text(first + position)
        offset += 30 + len(claim_id)
        index += struct.pack(">II", offset, len(body))
        manifest.append(
            {
                "claim_id": claim_id,
                "id": claim["id"],
                "offset": offset,
                "length": len(body),
                "sha256": hashlib.sha256(body).hexdigest(),
                "content_type": claim["content_type"],
                "received_at": claim["received_at"],
            }
        )
        offset += len(body)
    pack = Pack()
    pack.add("index.bin", index)
    for entry, body in zip(manifest, bodies):
        pack.add(entry["claim_id"], body)
    text = json.dumps({"v": 1, "claims": manifest}, separators=(",", ":"), ensure_ascii=False)
    pack.add("manifest.json", text.encode())
    return pack.close()


def read(file):
    with zipfile.ZipFile(file) as pack:
        broken = pack.testzip()
        assert broken is None, f"the entry {broken} is broken"
        entries = {name: base64.b64encode(pack.read(name)).decode() for name in pack.namelist()}
        return {"names": pack.namelist(), "entries": entries}


command, file = sys.argv[1:]
if command == "build":
    with open(file, "wb") as out:
        out.write(build(json.load(sys.stdin)))
else:
    json.dump(read(file), sys.stdout)
