#!/usr/bin/env python3
"""Reads the rows of Parquet files as lines of JSON, for `tessera data prepare`.

The first line of standard output is {}, or {"error": CLAUSE} where there is no pyarrow. Each line of standard input asks
for a file: {"file": its path's bytes in hexadecimal, "key": the column of texts}. The answer is {"rows": count} and a line
for each row, an object of the columns that make documents, as the readers of .jsonl take it. In place of a row, "!CLAUSE"
says why it cannot be read, and "?CLAUSE" the same of all that follows in the file. In place of the count, {"error": CLAUSE}
does so of the whole file; with "columns": true it is whole, but has not the columns that are asked for.

Row groups are read in stretches of some rows, so that memory does not depend on the size of a file.
"""

import contextlib
import json
import os
import sys

try:
    import pyarrow
    import pyarrow.parquet
except ImportError as missing:
    print(json.dumps({"error": f"{sys.executable} cannot import pyarrow ({missing})"}))
    sys.exit(0)

MESSAGES = ("messages", "conversations")
PAIR = ("prompt", "completion")
BESIDE = ("system", "tools", "chat_template_kwargs")  # messages
STRETCH, MOST_ROWS = 1 << 24, 256  # bytes and rows that are decoded at a time
SHOWN = 12  # names of columns in a message


class Problem(Exception):
    """What is wrong with a file or a row, as a clause."""


def reason(error):
    """Returns an error's words, in one line."""
    return str(error) if isinstance(error, Problem) else " ".join(str(error).split()).rstrip(".") or type(error).__name__


def wanted_columns(schema, key):
    """Returns the names of the columns that make documents."""
    names = schema.names
    if not (key in names or any(name in names for name in MESSAGES) or all(name in names for name in PAIR)):
        there = ", ".join(json.dumps(name, ensure_ascii=False) for name in names[:SHOWN])
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise Problem(
            f'it has no column "{key}" (data.text_key), "messages", "conversations", or "prompt" and "completion", but '
            + (there + more or "no column at all")
        )
    wanted = list(dict.fromkeys(name for name in (key, *MESSAGES, *PAIR, *BESIDE) if name in names))
    for name in wanted:
        if names.count(name) > 1:
            raise Problem(f'it has the column "{name}" {names.count(name)} times')
        if kind := unlike_json(schema.field(name).type):
            raise Problem(f'the column "{name}" has the type {kind}, which is not text')
    return wanted


def unlike_json(kind):
    """Returns the type of a column if none of its values is one of JSON's."""
    kind = getattr(kind, "storage_type", kind)  # of an extension
    kind = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    is_of = pyarrow.types
    others = (is_of.is_binary, is_of.is_large_binary, is_of.is_fixed_size_binary, is_of.is_temporal, is_of.is_decimal, is_of.is_map)
    return kind if any(is_other(kind) for is_other in others) or str(kind) == "binary_view" else None


def plain(value):
    """Returns what stands for a value inside of a message that JSON does not have: times as text, bytes as null."""
    return None if isinstance(value, bytes) else str(value)


to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=plain).encode


def reader_of(kind):
    """Returns what makes of a type's values those of the JSON that was written as them; None if they are that.

    All values of a struct have all of its keys, so that a null stands for a key that the object does not have.
    """
    is_of = pyarrow.types
    if getattr(kind, "extension_name", None) == "arrow.json":
        return json.loads
    if is_of.is_struct(kind):
        fields = [(kind.field(i).name, reader_of(kind.field(i).type)) for i in range(kind.num_fields)]
        return lambda value: {
            name: read(value[name]) if read else value[name] for name, read in fields if value[name] is not None
        }
    if is_of.is_map(kind):
        read = reader_of(kind.item_type)
        return lambda value: {name: read(one) if read and one is not None else one for name, one in value}
    read = reader_of(kind.value_type) if "list" in str(kind).split("<")[0] else None
    return read and (lambda value: [one if one is None else read(one) for one in value])


def lines_of(batch):
    """Returns a line for each row. Rows that fail are looked at one by one."""
    names = batch.schema.names
    try:
        readers = [reader_of(field.type) for field in batch.schema]
        columns = [
            [value if value is None else read(value) for value in column.to_pylist()] if read else column.to_pylist()
            for column, read in zip(batch.columns, readers)
        ]
        return "".join(to_json(dict(zip(names, row))) + "\n" for row in zip(*columns)).encode()
    except Exception as error:
        if batch.num_rows == 1:
            return f"!the row cannot be read: {reason(error)}\n".encode(errors="replace")
        return b"".join(lines_of(batch.slice(row, 1)) for row in range(batch.num_rows))


def answer(asked, out):
    """Answers to a line of standard input."""

    def say(text):
        out.write(text.encode(errors="replace") + b"\n")

    try:
        source = open(os.fsencode(bytes.fromhex(asked["file"])), "rb", buffering=0)
        file = pyarrow.parquet.ParquetFile(
            source, pre_buffer=False, buffer_size=1 << 20, page_checksum_verification=True
        )
        wanted = wanted_columns(file.schema_arrow, asked["key"])
    except Exception as error:
        return say(to_json({"error": reason(error), "columns": isinstance(error, Problem)}))
    with source, file:
        rows = file.metadata.num_rows
        say(to_json({"rows": rows}))
        groups = range(file.metadata.num_row_groups)
        whole = sum(file.metadata.row_group(group).total_byte_size for group in groups)
        stretch = max(1, min(MOST_ROWS, STRETCH * rows // max(whole, 1)))
        try:
            for batch in file.iter_batches(batch_size=stretch, columns=wanted, use_threads=False):
                out.write(lines_of(batch.select(wanted)))
                out.flush()
        except BrokenPipeError:
            raise
        except Exception as error:
            say(f"?{reason(error)}")


def main():
    out = sys.stdout.buffer
    out.write(b"{}\n")
    out.flush()
    for line in sys.stdin.buffer:
        answer(json.loads(line), out)
        out.flush()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main()
