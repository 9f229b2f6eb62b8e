#!/usr/bin/env python3
"""Counts what keeps a house in order: count_house.py ROOT [--check].

With --check, exits 1 where a count is over its limit: no name outside its table, no wide line, none of the words.

device checks   code outside the backends (src/cuda, */cpu, backend) that asks whether it computes on a CPU or a GPU
tables          names that stand in one table and nowhere else, by file: a family of models is asked for its row
owners          calls that make a resource, per kind, by file: one file (or one folder of wrappers) owns each kind
wide lines      lines of Markdown over 100 columns (tables, links and code blocks apart)
words           words that the field does not use (src, include, tests, Markdown), by word
sizes           options, modules, kinds of operations and of values: what a reader has to know
positional      initializers of more than four fields without their names, outside of tables: how many, and in which files most
long files      sources of src and include with more than 300 lines that are not named here: a file has one subject
"""

import re
import subprocess
import sys
from pathlib import Path

from modules import declared_modules

SOURCES = {".hpp", ".cpp", ".cu", ".cuh", ".inc"}
DEVICE_CHECKS_ALLOWED = 8  # run.device resolved, two factories, defaults; the rest asks backend/device_kind.hpp
POSITIONAL_ALLOWED = 187  # initializers; it only falls: name the fields of new ones
DEVICE_CHECK = re.compile(r"DeviceKind::(cpu|cuda)|host_reaches_memory\(\)|captures_collectives\(\)")
BACKENDS = re.compile(r"^(src/cuda/|src/backend/|include/tessera/(cuda|backend)/|src/\w+/(cpu|gpu)/|src/config/choices\.cpp)")
TABLES = {  # name: (pattern, the table's files)
    "Family::": (r"\bFamily::", r"(src|include/tessera)/model/family\."),
    "kinds of state": (r"\bStateKind::\w*moment", r"(src|include/tessera)/optimizer/"),
}
OWNERS = {
    "close": re.compile(r"::close\("),
    "munmap": re.compile(r"\bmunmap\("),
    "cudaEventDestroy": re.compile(r"\bcudaEventDestroy\("),
    "MPI_Comm_free": re.compile(r"\bMPI_Comm_free\("),
    "H5*close": re.compile(r"\bH5[A-Z]close\("),
}
CORE = r"(src|include/tessera)/(grid|schedule|engine)/"  # where a word has another meaning elsewhere
MATMULS = r"(src|include/tessera)/(cuda|kernels|bench|model|engine)/|gpu_emulator/libraries/|tests/(kernels|bench|emulated)/"
WORDS = {  # word: (pattern, files)
    "owed": (r"\bowed", ""),
    "whole (a value)": (r"\bwhole_|\"whole |\bwhole (copy|copies|parameter|gradient|unit|wte|h\.)", CORE + "|README|docs/manual/"),
    "lane": (r"\b[Ll]anes?\b|kLanes|TwoLanes",
             CORE + "|tests/(comm|emulated|training|schedule|engine|backend)/"),
    "place (memory)": (r"\bPlace\b|kPlaces|PlacePlan", CORE),
    "payload": (r"[Pp]ayload", "src/|include/|README|docs/manual/"),
    "lend": (r"\b(lend|lent|lends)\b", CORE + "|/comm/"),
    "Carver": (r"\b[cC]arver", ""),
    "beside (memory)": (r"MemoryBeside|memory_beside", ""),
    "manner": (r"\bmanner[(.]|\bManner\b", ""),
    "settle_": (r"\bsettle_", ""),
    "deal": (r"\b[Dd]eal\b|dealing_", CORE + "|/training/"),
    "product (GEMM)": (r"ProductChoice|product_choices|kept_products|KeptProducts|MatrixProduct|matrix_product\.|[Mm]atrix[ -]products?"
                       r"|\b(bf16|fp16|fp32) products?\b|\bof products\b|Product(Operand|Epilogue|Rate|Shape|Variants|Workspace)"
                       r"|\b(finish|tile|attention)_product|_product_(by|launches)|_gradient_product|\bproduct_flops|\bproducts_\b", ""),
    "product (kernels)": (r"(?<!\")[Pp]roducts?\b(?!: \")", MATMULS),
    "way (algorithm)": (r"CollectiveWay|CommWays|way_over|comm_ways|host_way|\bWays?\b|\bways_\b|[Ss]taged way|ways? (of talking|for GPUs)"
                        r"|(?<!under )(?<!the )(?<!its )(?<!their )\bway[.,:;)\[]|\bway =", ""),
    "resident": (r"resident_bytes", ""),
    "room (module)": (r"tessera_room|\b(this|other|each|another|which) rooms?\b|ROOM\b", ""),
    "for people": (r"for people", ""),
    "checkpoint (recompute)": (r"(?<!memory\.)checkpoint_blocks|\bCheckpointing\b", "src/|include/"),
    "device communication": (r"DeviceCommunication|device_communication|(Nccl|Staged)Communication|DeviceCommBackend[>&]* communication"
                             r"|\bcommunication(->|\.)(check|open|warm_up|allocate_shared|backend|description|watch)", ""),
    "device traits": (r"has_libraries|is_allotted|host_network", ""),
    "member": (r"\bMember\b|MemberCommunicator|comm/member", "src/|include/|tests/.*pp"),
    "lane mode": (r"LaneMode|\blanes_of\b|settings_?\.lanes\b", ""),
    "turn, attend (kernels)": (r"\b(turn|turned|attend|attend_backward)\(|\bturn(s|ed)? (pairs|heads|positions)", "/kernels/|/model/"),
    "layout (placement)": (r"\"[^\"\n]*\b[Ll]ayout(?!s?\.hpp)", "schedule/"),
    "s_": (r"\bs_\.", "src/|include/"),
}

MOST_LINES = 300
LONG = {  # tables, which read well in one piece
    "include/tessera/config/options.hpp", "src/config/option_table.cpp",
}


def files(root, *suffixes):
    """The files with these suffixes that git tracks; without git, all but those of builds."""
    done = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=False)
    listed = done.stdout.split("\n") if done.returncode == 0 else [
        path.relative_to(root).as_posix() for path in root.rglob("*") if path.relative_to(root).parts[0] != "build"]
    return [name for name in listed if Path(name).suffix in suffixes and (root / name).is_file()]


def code(text):
    return re.sub(r"//[^\n]*", "", text)


def device_checks(root, names):
    found = {}
    for name in names:
        if not name.startswith(("src/", "include/")) or BACKENDS.match(name):
            continue
        count = len(DEVICE_CHECK.findall(code((root / name).read_text(encoding="utf-8"))))
        if count:
            found[name] = count
    return found


def outside_tables(root, names):
    return {name: [file for file in names if file.startswith(("src/", "include/")) and not re.match(table, file)
                   and re.search(pattern, code((root / file).read_text(encoding="utf-8")))]
            for name, (pattern, table) in TABLES.items()}


def owners(root, names):
    return {kind: sorted(name for name in names if name.startswith(("src/", "include/"))
                         and pattern.search(code((root / name).read_text(encoding="utf-8"))))
            for kind, pattern in OWNERS.items()}


def wide_lines(root):
    wide = []
    for name in files(root, ".md"):
        in_code = False
        for number, line in enumerate((root / name).read_text(encoding="utf-8").split("\n"), start=1):
            if line.lstrip().startswith("```"):
                in_code = not in_code
            elif len(line) > 100 and not in_code and not line.lstrip().startswith("|") and not re.match(r"^\S*\[.*\]\(\S+\)\S*$", line):
                wide.append(f"{name}:{number}")
    return wide


def words(root, names):
    counts = {}
    for word, (pattern, where) in WORDS.items():
        counts[word] = sum(len(re.findall(pattern, (root / name).read_text(encoding="utf-8"))) for name in names
                           if re.search(where, name) and name not in ("CHANGELOG.md", "tests/architecture/count_house.py"))
    return counts


def sizes(root):
    """What a reader has to know: how many there are of each."""
    def lines_of(name):
        return (root / name).read_text(encoding="utf-8").splitlines()

    operations = "\n".join(lines_of("include/tessera/schedule/operation.hpp"))

    def enumerators(name):
        body = re.search(rf"enum class {name}\b[^{{]*{{(.*?)}}", code(operations), re.DOTALL).group(1)
        return len([one for one in body.split(",") if one.strip()])

    return {"options": len(lines_of("tests/golden/options.txt")), "modules": len(declared_modules(root)),
            "kinds of operations": enumerators("OperationKind"), "kinds of values": enumerators("ValueKind")}


def fields_of(text, begin):
    """The elements of the braces that open at `begin`; none where they hold statements."""
    depth, fields = 0, [""]
    for letter in text[begin:]:
        depth += (letter in "({[") - (letter in ")}]")
        if depth == 0:
            return [field.strip() for field in fields if field.strip()]
        if depth == 1 and letter == ";":
            return []
        if depth == 1 and letter == ",":
            fields.append("")
        elif depth > 1 or letter != "{":
            fields[-1] += letter
    return []


def positional(root, names):
    """{file: initializers of a type, an argument or what is returned, with more than four fields that say no name}"""
    found = {}
    for name in names:
        if not name.startswith(("src/", "include/")) or "table" in name or name in LONG:
            continue
        text = code((root / name).read_text(encoding="utf-8"))
        for match in re.finditer(r"(?:\breturn\s*|\b[A-Z]\w*\s*(?:\w+\s*)?|[(,]\s*)(?=\{)", text):
            fields = fields_of(text, match.end())
            before = text[max(0, match.start() - 20):match.start()]
            if len(fields) > 4 and not fields[0].startswith(".") and "enum" not in before and "std::array" not in before:
                found[name] = found.get(name, 0) + 1
    return found


def main():
    root = Path(sys.argv[1])
    sources = files(root, *SOURCES)
    checks = device_checks(root, sources)
    print(f"device checks outside the backends: {sum(checks.values())} in {len(checks)} files")
    for name, count in sorted(checks.items()):
        print(f"  {count} {name}")
    outside = outside_tables(root, sources)
    for name, where in outside.items():
        print(f"{name} outside its table: {len(where)} files: {' '.join(where)}")
    for kind, where in owners(root, sources).items():
        print(f"{kind}: {len(where)} files: {' '.join(where)}")
    wide = wide_lines(root)
    print(f"lines of Markdown over 100 columns: {len(wide)}")
    counted = words(root, [*sources, *files(root, ".md")])
    for word, count in counted.items():
        print(f"{word}: {count}")
    for what, count in sizes(root).items():
        print(f"{what}: {count}")
    unnamed = positional(root, sources)
    most = sorted(unnamed, key=unnamed.get, reverse=True)[:3]
    print(f"positional initializers of more than four fields: {sum(unnamed.values())}; most in {' '.join(most)}")
    lines = {name: len((root / name).read_text(encoding="utf-8").splitlines()) for name in sources if name.startswith(("src/", "include/"))}
    over = {name for name, count in lines.items() if count > MOST_LINES}
    print(f"files over {MOST_LINES} lines: {len(over)}; not among those named: {' '.join(sorted(over - LONG))}")
    print(f"lines of src and include: {sum(lines.values())}")
    is_over = (sum(checks.values()) > DEVICE_CHECKS_ALLOWED or any(outside.values()) or wide or any(counted.values())
               or over - LONG or sum(unnamed.values()) > POSITIONAL_ALLOWED)
    return 1 if is_over and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
