#!/usr/bin/env python3
"""Makes tests/reference/chats.json: what becomes of drawn conversations, by Transformers and the rules of the manual.

make_chats.py                       writes the file
make_chats.py --check               makes everything again and compares
make_chats.py --compare TESSERA N   compares N conversations per template with what `TESSERA data prepare` writes

Ids are those of apply_chat_template, masks those of return_assistant_tokens_mask where a template has marks; elsewhere
they follow from renderings of the first messages (docs/manual/data.md, Conversations). Needs transformers==5.24.0.
"""

import argparse
import json
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import jinja2
from chat_templates import SHAPES
from transformers import AutoTokenizer
from transformers.utils.chat_template_utils import render_jinja_template

HERE = Path(__file__).resolve().parent
STORED = 4
WORDS = ["the", "Paris", " is", "don't", "\n", "  ", "12,345", "na\u00efve", "e\u0301t\u00e9", "\u4f60\u597d", "\U0001f600", "{x}", "'quoted'", "\t",
         "\u00a0", "a<b>c", "<|im_end|>", "[INST]", "\\", "\u200d", "\ud55c\uae00", "fi\ufb01", "...", "#", "\r\n", "\u2581mark", "\u0000"]


def drawn_text(rng):
    return rng.choice(["", " ", "\n"]) * (rng.random() < 0.2) + "".join(
        rng.choice(WORDS) + rng.choice(["", " ", " ", " "]) for _ in range(rng.choice([0, 1, 3, 8, 8, 20])))


def drawn_conversation(name, rng):
    messages = []
    if rng.random() < 0.4 and name not in ("instruction", "turns"):
        messages.append({"role": "system", "content": drawn_text(rng)})
    for _ in range(rng.choice([1, 1, 2, 3, 5])):
        messages.append({"role": "user", "content": drawn_text(rng)})
        answer = {"role": "assistant", "content": drawn_text(rng)}
        if "thought" in name and rng.random() < 0.4:
            answer["content"] = f"<think>{drawn_text(rng)}</think>\n\n{answer['content']}"
        if name in ("channels", "empty_thought") and rng.random() < 0.4:
            answer[rng.choice(["reasoning_content", "thinking", "reasoning"])] = drawn_text(rng)
        if name == "parts":
            for message in messages[-1], answer:
                if rng.random() < 0.5:
                    message["content"] = [{"type": "text", "text": message["content"]}, {"type": "image"}]
        messages.append(answer)
        if name == "tools" and rng.random() < 0.5:
            answer["content"] = rng.choice([None, answer["content"]])
            call = {"name": "find", "arguments": {"what": drawn_text(rng), "n": rng.choice([1, 2.5, None, True])}}
            answer["tool_calls"] = [{"type": "function", "function": call}]
            messages += [{"role": "tool", "content": drawn_text(rng)}, {"role": "assistant", "content": drawn_text(rng)}]
    if rng.random() < 0.15 and name != "instruction":
        messages.append({"role": "user", "content": drawn_text(rng)})
    conversation = {"messages": messages}
    if name == "tools" and rng.random() < 0.6:
        conversation["tools"] = [{"type": "function", "function": {"name": "find", "description": "<Finds> \u00e9"}}]
    turn = max((i for i, message in enumerate(messages) if message["role"] == "assistant"), default=0)
    plain = all(set(message) == {"role", "content"} and isinstance(message["content"], str) for message in messages)
    form = rng.random()
    if form < 0.15 and turn > 0:
        tools = {key: conversation[key] for key in conversation if key == "tools"}
        return {"prompt": messages[:turn], "completion": messages[turn:], **tools}
    if form < 0.3 and plain:
        names = {"user": "human", "assistant": "gpt"}
        return {"conversations": [{"from": names.get(m["role"], m["role"]), "value": m["content"]} for m in messages]}
    return conversation


def messages_of(conversation):
    """Returns the messages and how many of them are only read."""
    if "messages" in conversation:
        return conversation["messages"], 0
    if "prompt" in conversation:
        return conversation["prompt"] + conversation["completion"], len(conversation["prompt"])
    names = {"human": "user", "gpt": "assistant"}
    return [{"role": names.get(m["from"], m["from"]), "content": m["value"]} for m in conversation["conversations"]], 0


def write_folder(name, folder):
    template, tokenizer, special, keys = SHAPES[name]
    folder.mkdir(parents=True)
    shutil.copy(HERE / "tokenizers" / tokenizer / "tokenizer.json", folder)
    config = config_of(name)
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def config_of(name):
    _, _, special, keys = SHAPES[name]
    keys = dict(keys)
    greedy = keys.pop("greedy", False)
    tokens = [{"content": token, "special": True, "lstrip": False, "rstrip": greedy, "normalized": False, "single_word": False,
               "__type": "AddedToken"} for token in special]
    return {"tokenizer_class": "PreTrainedTokenizerFast", "extra_special_tokens": tokens, **keys}


class Problem(Exception):
    pass


def expected(tokenizer, name, conversation, turns):
    """Returns ids and mask of a conversation; nothing if it is refused."""
    messages, read_only = messages_of(conversation)
    tools = conversation.get("tools")

    def text_of(some, prompt=False):
        return tokenizer.apply_chat_template(some, tools=tools, tokenize=False, add_generation_prompt=prompt)

    def require(beginning):
        if not text.startswith(beginning):
            raise Problem
        return len(beginning)

    try:
        text = text_of(messages)
        if not text:
            return None
        out = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, offsets = out["input_ids"], out["offset_mapping"]
        assert ids == tokenizer.apply_chat_template(messages, tools=tools, tokenize=True, return_dict=False)
        answers = [i for i in range(read_only, len(messages)) if messages[i]["role"] == "assistant"]
        if turns == "last":
            answers = answers[-1:]
        mask = [0] * len(ids)
        if "marked" in name and answers:
            whole = tokenizer.apply_chat_template(messages, tools=tools, return_dict=True, return_assistant_tokens_mask=True)
            begin = 0
            if (read_only or turns == "last") and answers[0]:
                before = text_of(messages[:answers[0]])
                begin = require(before if text.startswith(before) else text_of(messages[:answers[0]], True))
            there = [{key: value for key, value in message.items() if value is not None} for message in messages]
            marks = render_jinja_template([there], tools=tools, chat_template=tokenizer.chat_template,
                                          return_assistant_tokens_mask=True, **tokenizer.special_tokens_map)[1][0]
            # Transformers' mask also has tokens that a mark cuts through.
            mask = [int(bit and any(begin <= b <= first and last <= e for b, e in marks))
                    for bit, (first, last) in zip(whole["assistant_masks"], offsets)]
            assert name == "marked_words" or read_only or turns == "last" or mask == whole["assistant_masks"]
            answers = []
        for turn in answers:
            begin = require(text_of(messages[:turn], True))
            end = require(text_of(messages[:turn + 1]))
            if end < begin:
                raise Problem
            inside = [i for i, (first, last) in enumerate(offsets) if begin <= first and last <= end]
            if name == "greedy_tokens":  # such a token takes the line's end with it, behind the turn's last one
                inside = [i for i, (first, last) in enumerate(offsets)
                          if begin <= first and first + len(tokenizer.convert_ids_to_tokens(ids[i])) <= end or i in inside]
            added = tokenizer.added_tokens_decoder
            special = [i for i in inside if ids[i] in added and added[ids[i]].special]
            for i in inside:
                mask[i] = int(not special or i <= special[-1])
    except (Problem, jinja2.exceptions.TemplateError, TypeError):
        return None
    return ids, mask


def runs_of(mask):
    """Returns the ranges of tokens that do not count."""
    runs = []
    for i, bit in enumerate(mask):
        if not bit:
            if runs and runs[-1][1] == i:
                runs[-1][1] += 1
            else:
                runs.append([i, i + 1])
    return runs


def cases():
    for name in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            write_folder(name, Path(folder) / name)
            tokenizer = AutoTokenizer.from_pretrained(Path(folder) / name)
        for turns in ("all", "last") if name in ("drops_thoughts", "empty_thought", "marked", "marked_end", "end_at_last") else ("all",):
            rng = random.Random(f"{name} {turns}")
            rows = []
            while len(rows) < STORED:
                conversation = drawn_conversation(name, rng)
                found = expected(tokenizer, name, conversation, turns)
                row = {"conversation": conversation}
                if found:
                    row |= {"ids": found[0], "uncounted": runs_of(found[1])}
                rows.append(row)
            yield {"name": name, "tokenizer": SHAPES[name][1], "config": config_of(name), "template": SHAPES[name][0],
                   "turns": turns, "rows": rows}


def read_corpus(file, width):
    data = file.read_bytes()[1024:]
    ids = struct.unpack(f"<{len(data) // width}{'HI'[width // 4]}", data)
    index = Path(f"{file}.idx").read_bytes()
    ends = struct.unpack(f"<{(len(index) - 64) // 8}Q", index[64:])
    mask = [1] * len(ids)
    if Path(f"{file}.mask").exists():
        numbers = Path(f"{file}.mask").read_bytes()[64:]
        numbers = struct.unpack(f"<{len(numbers) // 8}Q", numbers)
        for first, last in zip(numbers[::2], numbers[1::2]):
            mask[first:last] = [0] * (last - first)
    begins = [0, *ends[:-1]]
    return [(list(ids[b:e]), mask[b:e]) for b, e in zip(begins, ends)]


def compare(tessera, count, names):
    for name in names or SHAPES:
        for turns in "all", "last":
            with tempfile.TemporaryDirectory() as folder:
                folder = Path(folder)
                write_folder(name, folder / "model")
                tokenizer = AutoTokenizer.from_pretrained(folder / "model")
                rng = random.Random(f"compare {name} {turns}")
                conversations = [drawn_conversation(name, rng) for _ in range(count)]
                lines = [json.dumps(one, ensure_ascii=rng.random() < 0.5) for one in conversations]
                (folder / "chats.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
                wanted = [expected(tokenizer, name, one, turns) for one in conversations]
                words = [tessera, "data", "prepare", f"--data.source={folder}/chats.jsonl", f"--data.tokenizer={folder}/model",
                         f"--data.output={folder}/out.bin", f"--data.chat_turns={turns}", "--data.on_error=skip", "--data.separator=none"]
                done = subprocess.run(words, capture_output=True, text=True)
                kept = [one for one in wanted if one is not None]
                if done.returncode:
                    print(name, turns, "FAILED", done.returncode, done.stderr, len(kept), "wanted")
                    continue
                got = read_corpus(folder / "out.bin", 4 if "uint32" in done.stdout else 2)
                wrong = [i for i in range(min(len(got), len(kept))) if got[i] != kept[i]]
                print(f"{name:16} {turns:4} {len(kept):6} of {count} kept, {len(got):6} prepared, {len(wrong)} differ",
                      "" if len(got) == len(kept) and not wrong else "<<<<<<")
                if wrong:
                    where = kept[wrong[0]]
                    print(" ", wrong[0], [tokenizer.convert_ids_to_tokens(where[0][i]) for i in range(len(where[0]))][:60])
                    print("  wanted", runs_of(where[1]), "got", runs_of(got[wrong[0]][1]), where[0] == got[wrong[0]][0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--compare", nargs=2, metavar=("TESSERA", "N"))
    parser.add_argument("--names", nargs="*")
    arguments = parser.parse_args()
    if arguments.compare:
        return compare(arguments.compare[0], int(arguments.compare[1]), arguments.names)
    text = "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases()) + "\n]\n"
    if arguments.check:
        return 0 if (HERE / "chats.json").read_text(encoding="utf-8") == text else "chats.json differs"
    (HERE / "chats.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
