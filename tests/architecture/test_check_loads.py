"""The check of loads must see what it is there for."""

import unittest

from check_loads import complaints

NOTHING = 7  # as a scoreboard that is set: none
LOAD, USE = "LDG.E.128 R4, desc[UR4][R2.64]", "FADD R0, R4, R5"


def listing(*lines, name="_Z6kernelv"):
    """A kernel of (text, the scoreboard that it sets, those that it waits for), 16 bytes each."""
    code = f"\t\tFunction : {name}\n\t.headerflags\t@\"EF_CUDA_SM90\"\n"
    for i, (text, sets, waits) in enumerate([*lines, ("EXIT", NOTHING, [])]):
        control = sets << 46 | sum(1 << board for board in waits) << 52
        code += f"        /*{16 * i:04x}*/                   {text} ;          /* 0x{0:016x} */\n"
        code += f"                                                              /* 0x{control:016x} */\n"
    return code


def load(board=0):
    return LOAD, board, []


def use(*boards):
    return USE, NOTHING, boards


class CheckLoads(unittest.TestCase):
    def test_loads_together(self):
        self.assertEqual(complaints(listing(load(0), load(0), load(1), use(0), use(1))), ([], 1))
        self.assertEqual(complaints(listing(load(), use(0))), ([], 1))

    def test_one_by_one(self):
        wrong, count = complaints(listing(load(), use(0), load(), use(0)))
        self.assertEqual(count, 1)
        self.assertIn("2 of its 2 loads", wrong[0])

    def test_a_pair_and_one_behind_it(self):
        self.assertEqual(complaints(listing(load(), load(), use(0), load(), use(0)))[0], [])

    def test_the_next_turn_of_a_loop_loads_ahead(self):
        ahead = [load(0), use(1), load(1), ("@P0 BRA 0x0", NOTHING, [0])]
        self.assertEqual(complaints(listing(*ahead))[0], [])
        self.assertEqual(len(complaints(listing(*ahead[:3], ("@P0 BRA 0x0", NOTHING, [0, 1])))[0]), 0)
        behind = [load(0), use(0), load(1), ("@P0 BRA 0x0", NOTHING, [1])]
        self.assertEqual(len(complaints(listing(*behind))[0]), 1)

    def test_a_path_without_the_wait_counts(self):
        branch, meet = ("BSSY B0, 0x50", NOTHING, []), ("BSYNC B0", NOTHING, [])
        code = [load(0), branch, ("@P0 BRA 0x40", NOTHING, []), use(0), meet, load(1), use(0, 1)]
        self.assertEqual(complaints(listing(*code))[0], [])
        code[2] = ("NOP", NOTHING, [])
        self.assertEqual(len(complaints(listing(*code))[0]), 1)

    def test_narrow_loads_do_not_count(self):
        narrow = "LDG.E.U16 R4, desc[UR4][R2.64]", 0, []
        self.assertEqual(complaints(listing(narrow, use(0), narrow, use(0))), ([], 1))

    def test_an_exception(self):
        serial = [load(), use(0)] * 2
        self.assertEqual(complaints(listing(*serial, name="_Z21token_gradient_kernelv")), ([], 1))
        self.assertEqual(len(complaints(listing(*serial, load(), use(0), name="_Z21token_gradient_kernelv"))[0]), 1)

    def test_no_kernels(self):
        self.assertEqual(complaints(""), ([], 0))


if __name__ == "__main__":
    unittest.main()
