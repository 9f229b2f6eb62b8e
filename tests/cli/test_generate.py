"""tessera generate as a user runs it: from a run, a checkpoint and a Hugging Face folder, on one rank and several."""
import json
import tempfile
import threading
from pathlib import Path

import h5py

from job import REFERENCE, TINY, Case, Job, main, write_text
from running import logged

PROMPT = "The rank "
SAMPLES = Path(__file__).resolve().parents[2] / "inputs" / "sample_data"


MADE = tempfile.TemporaryDirectory(prefix="tessera-cli-generate-")
MAKING = threading.Lock()  # tests run at the same time


def trained_run():
    """A run on bytes with a checkpoint, made once for all tests."""
    folder = Path(MADE.name)
    with MAKING:
        if not (folder / "run").exists():
            write_text(folder / "text", sentences=100)
            job = Job(["train", *TINY, "--train.steps=40", "--data.source=text", "--run.dir=run", "--checkpoint.every=40",
                       "--optim.lr=0.01", "--data.val_fraction=0"], cwd=folder)
            assert job.code == 0, job.everything()
    return folder / "run"


class Generate(Case):
    def setUp(self):
        super().setUp()
        self.run_folder = trained_run()

    def generate(self, model, *arguments, ranks=0):
        """The output of a run that succeeds."""
        return self.do("generate", model, "--run.threads=1", *arguments, ranks=ranks).out

    def objects(self, *arguments, ranks=0):
        """The objects of --generate.format=json, without their times."""
        lines = self.generate(self.run_folder, "--generate.format=json", *arguments, ranks=ranks).splitlines()
        results = [json.loads(line) for line in lines]
        for result in results:
            self.assertGreater(result.pop("seconds"), 0)
        return results

    def greedy(self, *arguments, ranks=0, model=None):
        return self.generate(model or self.run_folder, f"--generate.prompt={PROMPT}", "--generate.max_tokens=20",
                             "--generate.temperature=0", *arguments, ranks=ranks)

    def test_the_text_is_the_same_on_any_number_of_ranks_and_under_every_strategy(self):
        alone = self.greedy()
        self.assertTrue(alone.startswith(PROMPT))
        self.assertEqual(len(alone), len(PROMPT) + 20 + 1)  # bytes are tokens, and a line's end
        self.assertEqual(self.greedy(ranks=3), alone)
        self.assertEqual(self.greedy("--shard.strategy=ddp", ranks=2), alone)

    def test_a_checkpoint_and_its_export_say_the_same(self):
        said = self.greedy()
        checkpoint = self.run_folder / "checkpoints" / "step-00000040"
        self.assertEqual(self.greedy(model=checkpoint), said)
        self.do("export", checkpoint, "exported")
        self.assertEqual(self.greedy(model=self.folder / "exported"), said)

    def test_several_prompts(self):
        texts = ["The rank ", "A", "step reduce", "", "loss"]
        path = self.folder / "prompts.txt"
        path.write_text("\n".join(t or "x" for t in texts))
        options = [f"--generate.prompts={path}", "--generate.max_tokens=12", "--generate.seed=3", "--generate.top_k=9"]
        alone = self.objects(*options)
        self.assertEqual([result["number"] for result in alone], list(range(5)))
        self.assertEqual([result["prompt"] for result in alone], [t or "x" for t in texts])
        for result in alone:
            self.assertEqual(len(result["tokens"]), 12)
            self.assertEqual(bytes(result["tokens"]).decode("utf-8", "replace"), result["text"])
            self.assertEqual(result["finish_reason"], "length")
        self.assertEqual(self.objects(*options, ranks=2), alone)
        self.assertEqual(self.objects(*options, ranks=3), alone)
        other = self.objects(*options[:2], "--generate.seed=4", "--generate.top_k=9")
        self.assertNotEqual(other, alone)
        shown = self.generate(self.run_folder, *options)
        places = [shown.index(f"==> {i + 1} of 5 <==\n{t or 'x'}{alone[i]['text']}\n") for i, t in enumerate(texts)]
        self.assertEqual(places, sorted(places))

    def test_a_stop_string_ends_the_text(self):
        text = self.greedy()[len(PROMPT):-1]
        stop = text[7:10]
        end = text.index(stop)
        listed = self.objects(f"--generate.prompt={PROMPT}", "--generate.max_tokens=20", "--generate.temperature=0",
                              f"--generate.stop={json.dumps(['never said', stop])}")
        self.assertEqual(listed[0]["text"], text[:end])
        self.assertEqual(listed[0]["finish_reason"], "stop")
        self.assertEqual(len(listed[0]["tokens"]), end + len(stop))
        self.assertEqual(self.greedy(f"--generate.stop={stop}"), PROMPT + text[:end] + "\n")

    def test_hot_draws_are_valid_utf8(self):
        drawn = self.objects("--generate.prompt=\u20ac", "--generate.max_tokens=29", "--generate.temperature=50")
        self.assertIn("\ufffd", drawn[0]["text"])  # decoding what was printed would have failed otherwise
        self.assertEqual(bytes(drawn[0]["tokens"]).decode("utf-8", "replace"), drawn[0]["text"])

    def test_samples_while_it_trains(self):
        write_text(self.folder / "text", sentences=50)
        options = [*TINY, "--train.steps=6", "--data.source=text", "--data.val_fraction=0"]
        self.train(*options, "--run.dir=without")
        job = self.train(*options, "--run.dir=with", "--train.sample_every=2", "--generate.prompt=The ",
                         "--generate.max_tokens=9", "--generate.temperature=0", "--checkpoint.every=6", ranks=2)
        self.assertEqual(logged(self.folder / "with").keys(), logged(self.folder / "without").keys())
        samples = logged(self.folder / "with", "sample")
        self.assertEqual(list(samples), [0, 2, 4, 6])
        self.assertIn(f"step 4: sample\nThe {samples[4]}", job.out)
        with h5py.File(self.folder / "with" / "metrics.h5") as file:
            self.assertEqual(file["samples/step"][:].tolist(), [0, 2, 4, 6])
            texts = [text.rstrip(b"\0").decode() for text in file["samples/text"][:]]
        self.assertEqual(texts, ["The " + samples[step] for step in (0, 2, 4, 6)])
        with h5py.File(self.folder / "without" / "metrics.h5") as file:
            self.assertNotIn("samples", file)
        # A model that has no numbers has no sample, and goes on.
        bad = self.train(*options, "--run.dir=bad", "--train.sample_every=6", "--precision.compute=fp16", "--optim.lr=1e6",
                         "--run.on_bad_step=skip", ranks=2).out
        self.assertIn("step 6: logit 0 is not a number, which is a numerical failure of the model: the run goes on without", bad)
        # The last sample is what generate says of the last step's checkpoint.
        said = self.generate(self.folder / "with", "--generate.prompt=The ", "--generate.max_tokens=9",
                             "--generate.temperature=0")
        self.assertEqual(said, "The " + samples[6] + "\n")

    def test_the_run_says_which_tokenizer(self):
        words = REFERENCE / "tokenizers" / "llama3"
        self.train(*TINY, "--train.steps=10", f"--data.source={SAMPLES}", f"--data.tokenizer={words}", "--data.val_fraction=0",
                   "--model.vocab=2000", "--run.dir=words", "--checkpoint.every=10", "--optim.lr=0.01", "--data.cache=cache")
        options = ["--generate.prompt=The river", "--generate.max_tokens=12", "--generate.temperature=0"]
        said = self.generate(self.folder / "words", *options)
        self.assertTrue(said.startswith("The river"))
        self.assertEqual(self.generate(self.folder / "words", *options, ranks=2), said)
        self.assertEqual(self.generate(self.folder / "words", *options, f"--data.tokenizer={words}"), said)
        # A prompt begins with <|begin_of_text|>, by the file's template: it, he, ll, o. An empty one is that alone.
        self.refused("generate", self.folder / "words", "--generate.prompt=hello", "--generate.max_tokens=3000",
                     says="after prompt 1 of 4 tokens")
        self.assertGreater(len(self.generate(self.folder / "words", "--generate.prompt=", *options[1:])), 1)

    def test_each_end_that_a_folder_names_ends_a_text_also_of_a_run_that_began_from_it(self):
        words = REFERENCE / "tokenizers" / "llama3"
        data = [f"--data.source={SAMPLES}", "--data.val_fraction=0", "--data.cache=cache"]
        options = ["--generate.prompt=The river", "--generate.max_tokens=12", "--generate.temperature=0"]

        def written(model):
            text = json.loads(self.generate(model, *options, "--generate.format=json"))
            return text["tokens"], text["finish_reason"]

        self.train(*TINY, *data, "--train.steps=10", f"--data.tokenizer={words}", "--model.vocab=2000", "--run.dir=words",
                   "--checkpoint.every=10", "--optim.lr=0.01")
        self.assertEqual(self.job("export", "words", "folder").code, 0)
        tokens, reason = written("folder")
        self.assertEqual((len(tokens), reason), (12, "length"))
        config = json.loads((self.folder / "folder" / "config.json").read_text())
        (self.folder / "folder" / "config.json").write_text(json.dumps(config | {"eos_token_id": tokens[6]}))
        self.assertEqual(written("folder"), (tokens[:tokens.index(tokens[6]) + 1], "end"))
        # Of the rest, what would change even the likeliest tokens is named.
        (self.folder / "folder" / "generation_config.json").write_text(json.dumps({
            "eos_token_id": [5000, tokens[3]], "repetition_penalty": 1.3, "num_beams": 1, "suppress_tokens": [],
            "bad_words_ids": None, "stop_strings": ["x"], "temperature": 0.5}))
        self.assertIn('not taken  repetition_penalty = 1.3, stop_strings = ["x"] of generation_config.json\n',
                      self.do("generate", "folder", *options).err)
        ended = tokens[:min(tokens.index(tokens[6]), tokens.index(tokens[3])) + 1], "end"
        self.assertEqual(written("folder"), ended)
        self.train("--model.from=folder", *data, "--train.steps=1", "--optim.lr=0", "--train.seq_len=16", "--run.dir=tuned",
                   "--checkpoint.every=1", "--train.sample_every=1", *options)
        said = "The river" + logged(self.folder / "tuned", "sample")[1] + "\n"
        self.assertEqual(self.generate("folder", *options), said)
        self.assertEqual(written("tuned"), ended)
        self.assertEqual(self.job("export", "tuned", "again").code, 0)
        self.assertEqual(written("again"), ended)

    def test_chats_are_asked_by_the_template(self):
        (self.folder / "chat.jinja").write_text(
            "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}")
        messages = [{"role": "user", "content": "ra"}, {"role": "assistant", "content": "nk"}, {"role": "user", "content": "?"}]
        (self.folder / "whole.json").write_text(json.dumps(messages, indent=1))
        (self.folder / "lines.jsonl").write_text(f'"the\\nstep"\n{json.dumps({"messages": messages})}\n')
        asked = lambda *words: self.objects("--generate.max_tokens=4", "--data.chat_template=chat.jinja", *words)
        alone = asked("--generate.chat", "--generate.prompt=the")
        self.assertEqual([one["prompt"] for one in alone], ["<u>the<a>"])
        same = self.objects("--generate.max_tokens=4", "--generate.prompt=<u>the<a>")
        self.assertEqual(same, alone)
        self.assertEqual(asked("--generate.chat=true", "--generate.prompts=whole.json")[0]["prompt"], "<u>ra<a>nk<u>?<a>")
        self.assertEqual([one["prompt"] for one in asked("--generate.prompts=lines.jsonl", "--generate.chat")],
                         ["<u>the\nstep<a>", "<u>ra<a>nk<u>?<a>"])
        self.refused("generate", self.run_folder, "--generate.chat", "--generate.prompt=the",
                     says="needs a chat template, but data.tokenizer = bytes has none")

    def test_bad_input_is_refused(self):
        for arguments, says in (
                (["--generate.prompts=missing.txt"], "missing.txt"),
                (["--generate.prompt="], "prompt 1 is empty"),
                (["--generate.prompt=abc", "--generate.max_tokens=30"],
                 "generate.max_tokens = 30 after prompt 1 of 3 tokens makes 33 .*context is 32\. Use 1 to 29"),
                (["--generate.prompt=" + "a" * 40], "a shorter prompt"),
                (["--generate.prompt=a", "--run.device=cuda"], "run.device")):
            with self.subTest(arguments):
                self.refused("generate", self.run_folder, *arguments, says=says)
        self.refused("generate", "nowhere", "--generate.prompt=a", says="nowhere does not exist", ranks=2)
        self.refused("generate", REFERENCE / "deep", "--generate.prompt=a", says="has no tokenizer.*130.*data.tokenizer")
        self.refused("generate", says="a path")


if __name__ == "__main__":
    main()
