"""Mixed text for comparing tokenizers: drawn over all code points, scripts, code, emoji and white space, and from files."""

import random
import sys
import unicodedata
from pathlib import Path

WHITE = [chr(c) for c in [9, 10, 11, 12, 13, 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F,
                          0x3000, 0x200B, 0xFEFF]]  # the last two only look white
SCRIPTS = {  # where words are drawn from
    "latin": (0x61, 0x7A), "french": (0xE0, 0xFF), "greek": (0x3B1, 0x3C9), "cyrillic": (0x430, 0x44F), "hebrew": (0x5D0, 0x5EA),
    "arabic": (0x627, 0x64A), "devanagari": (0x904, 0x939), "thai": (0xE01, 0xE2E), "hangul": (0xAC00, 0xD7A3),
    "hiragana": (0x3041, 0x3096), "han": (0x4E00, 0x9FA5),
}
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'Re", "'\u017f", "'\u212a", "\u2019s", "''s", "'", "'l", "'v"]
EMOJI = ["\U0001F600", "\U0001F468\u200D\U0001F469\u200D\U0001F467", "\U0001F1E9\U0001F1EA", "\u2764\uFE0F", "\U0001F44D\U0001F3FD", "\u263A"]
CODE = ["for (int i = 0; i < n; ++i) {", "    return x_1 + y[2];", "\tif not self.done:", "}\r\n", "# TODO(me): fix_me!!\n", "<a href=\"x\">",
        "x->y::z<T&&>();", "0xDEADbeef", "a\tb\tc\n", "\n\n\n", "{{ }}", "/* \u00e9t\u00e9 */", "3.14159e-10", "1,234,567.89"]


def library_normal_form():
    from tokenizers import normalizers

    return normalizers.NFC().normalize_str


def left_out() -> set[str]:
    """Marks that the library's normal form, of an older Unicode, does not know: it differs from Python's for them."""
    form = library_normal_form()
    out = set()
    for c in map(chr, range(0x300, sys.maxunicode + 1)):
        if unicodedata.category(c) not in ("Mn", "Mc", "Me", "Lo", "Lm", "So"):
            continue
        for text in (f"a\u0301{c}", f"a{c}\u0323", f"a\u0345{c}", c):
            if form(text) != unicodedata.normalize("NFC", text):
                out.add(c)
        parts = unicodedata.normalize("NFD", c)
        if form(parts) != unicodedata.normalize("NFC", parts):
            out.update(c + parts)
    return out


def assigned() -> list[str]:
    """The code points that Python's Unicode (14.0 in 3.11, as PCRE2 10.42's) assigns, less `left_out`, U+180E and surrogates."""
    without = left_out() | {"\u180e"}
    return [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) not in ("Cn", "Cs", "Co") and c not in without]


def words_of(script: str, count: int) -> list[str]:
    first, last = SCRIPTS[script]
    return ["".join(chr(random.randint(first, last)) for _ in range(random.randint(1, 9))) for _ in range(count)]


class Drawer:
    """Draws pieces of text of one kind each."""

    def __init__(self, special: list[str]):
        self.points = assigned()
        self.marks = [c for c in self.points if unicodedata.combining(c)]
        self.digits = [c for c in self.points if unicodedata.category(c).startswith("N")]
        self.composed = [c for c in self.points if unicodedata.decomposition(c) and not unicodedata.decomposition(c).startswith("<")]
        self.special = special + [token[:-1] for token in special] + [f" {token} " for token in special]
        self.words = {script: words_of(script, 400) for script in SCRIPTS}
        self.kinds = [self.sentence] * 6 + [self.code, self.emoji, self.white, self.specials, self.any_points, self.any_points,
                                            self.contraction, self.marked, self.numbers, self.decomposed, self.long_run]

    def sentence(self) -> str:
        words = self.words[random.choice(list(SCRIPTS))]
        some = [words[int(random.random() ** 3 * len(words))] for _ in range(random.randint(1, 20))]
        return random.choice([" ", " ", "", "\n", ", "]).join(random.choice([w, w, w.capitalize()]) for w in some) + random.choice(". !?\n")

    def code(self) -> str:
        return "".join(random.choice(CODE) for _ in range(4))

    def emoji(self) -> str:
        return "".join(random.choice(EMOJI + [" "]) for _ in range(4))

    def white(self) -> str:
        return "".join(random.choice(random.choice([WHITE, " \n", " ", "\r\n\t "])) for _ in range(random.randint(1, 12)))

    def specials(self) -> str:
        return random.choice(self.special) if self.special else ""

    def any_points(self) -> str:
        return "".join(random.choices(self.points, k=random.randint(1, 30)))

    def contraction(self) -> str:
        return random.choice(["I", "", "he", "\u00e9", " ", "9", "!"]) + random.choice(CONTRACTIONS) + random.choice(["", "x", " ", "\u00e9"])

    def marked(self) -> str:
        return random.choice("aeiouAEIOU \n1") + "".join(random.choices(self.marks, k=random.randint(1, 5)))

    def numbers(self) -> str:
        return "".join(random.choices(random.choice([self.digits, "0123456789"]), k=random.randint(1, 9)))

    def decomposed(self) -> str:
        return unicodedata.normalize("NFD", "".join(random.choices(self.composed, k=random.randint(1, 6))))

    def long_run(self) -> str:
        return random.choice([" ", "\n", "a", "=", "-", "0", "\u00e9", "\u3042"]) * random.randint(1, random.choice([10, 300]))

    def document(self, characters: int) -> str:
        parts, length = [], 0
        while length < characters:
            parts.append(random.choice(self.kinds)())
            length += len(parts[-1])
        return "".join(parts)


def drawn_documents(size: int, special: list[str]) -> list[str]:
    """Documents of `size` bytes together, of all kinds of text; some are empty, some long."""
    drawer, documents, done = Drawer(special), [""], 0
    while done < size:
        documents.append(drawer.document(random.choice([3, 50, 2000, 2000, 20000, 200000])))
        done += len(documents[-1].encode())
    return documents


def every_point_documents() -> list[str]:
    """Every code point of `assigned` next to letters, spaces, line ends, digits, an apostrophe and itself."""
    points = assigned()
    return ["".join(f"a{c}b {c}{c}'{c}s\n{c}1 " for c in points[at:at + 2000]) for at in range(0, len(points), 2000)]


def read_documents(paths: list[Path], size: int) -> list[str]:
    """Files as documents (folders: their .py, .txt, .md, .hpp and .cpp files), nine tenths of `size` bytes of them, and drawn
    sentences in all scripts: a tenth."""
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    documents, done = [], 0
    for file in files:
        if file.suffix in (".py", ".txt", ".md", ".hpp", ".cpp") and file.is_file() and done < 0.9 * size:
            documents.append(file.read_text(encoding="utf-8", errors="replace"))
            done += len(documents[-1].encode())
    drawer = Drawer([])
    while done < size:
        documents.append("".join(drawer.sentence() for _ in range(60)))
        done += len(documents[-1].encode())
    random.shuffle(documents)
    return documents
