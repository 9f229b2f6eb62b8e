"""Compares the losses of the runs that there_and_back.sh left.

compare.py FOLDER: on Arm, one and two ranks have the same bits; Arm and x86-64 differ by their matmuls alone.
"""
import pathlib
import sys

import h5py

# Matmuls sum in another order. bf16 rounds what they give to eight bits, so that a last bit counts more.
TOLERANCE = {"fp32": 1e-7, "bf16": 5e-4}


def losses(folder: pathlib.Path) -> dict:
    with h5py.File(folder / "metrics.h5") as file:
        return dict(zip(file["steps/step"][()].tolist(), file["steps/loss"][()].tolist()))


def main() -> int:
    runs = pathlib.Path(sys.argv[1])
    names = sorted(folder.name[4:] for folder in runs.glob("x86_*") if folder.is_dir())
    failed = not names
    for name in names:
        x86, arm, arm2, there, back, never = (losses(runs / f"{kind}_{name}") for kind in ("x86", "arm", "arm2", "there", "back", "never"))
        course = {step: loss for step, loss in (x86 | there | back).items()}
        apart = max(abs(course[step] / never[step] - 1) for step in never)
        alone = max(abs(arm[step] / x86[step] - 1) for step in x86)
        same = arm == arm2
        good = same and max(apart, alone) < TOLERANCE[name] and sorted(course) == list(range(1, 10))
        failed |= not good
        print(f"arm: {name} one and two ranks: {'the same bits' if same else 'OTHER BITS'}; Arm alone {alone:.1e} from x86-64, "
              f"x86-64 to 3, Arm to 6 and back {apart:.1e}{'' if good else '  <- FAILED'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
