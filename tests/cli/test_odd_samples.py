"""Steps whose loss or gradient norm is far outside its recent spread: a warning, with the places of their samples."""
import random
import re

from job import TINY, Case, main

SEQUENCE = 32
RUN = [*TINY, f"--train.seq_len={SEQUENCE}", "--data.val_fraction=0", "--run.device=cpu", "--run.dir=run"]


class OddSamples(Case):
    def warnings(self, *options):
        out = self.train(*RUN, *options, timeout=120).out
        return re.findall(r"step +(\d+): (the loss|the gradient norm) \S+ is far from .* Its samples are (\d+) to (\d+); "
                          r"(\S+) says where they come from", out)

    def test_2000_usual_steps_are_not_warned_of(self):
        self.assertEqual(self.warnings("--data.synthetic_tokens=500000", "--train.steps=2000"), [])
        self.assertEqual(list((self.folder / "run").glob("samples-*")), [])

    def test_an_odd_sample_is_found_and_named(self):
        draw = random.Random(5)
        words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]
        lines = [" ".join(draw.choice(words) for _ in range(6)) for _ in range(4000)]
        planted = 1500
        lines[planted] = "".join(chr(draw.randrange(33, 127)) for _ in range(3 * SEQUENCE))
        (self.folder / "text.txt").write_text("\n".join(lines))
        warnings = self.warnings("--data.source=text.txt", "--data.order=sequential", "--train.steps=1200",
                                 "--optim.lr=0.003")
        self.assertEqual(len(warnings), 1, warnings)
        step, _, first, last, file = warnings[0]
        self.assertEqual((int(first), int(last)), (2 * int(step) - 2, 2 * int(step) - 1))
        places = (self.folder / file).read_text().splitlines()
        self.assertEqual([place.split(":")[0] for place in places], [f"sample {first}", f"sample {last}"])
        spans = [tuple(map(int, re.search(r"text.txt, lines (\d+) to (\d+)$", place).groups())) for place in places]
        self.assertTrue(any(begin <= planted + 1 <= end for begin, end in spans), spans)


if __name__ == "__main__":
    main()
