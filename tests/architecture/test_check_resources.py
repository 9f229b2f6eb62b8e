"""The check of the kernels' resources must see what it is there for."""

import unittest

from check_resources import complaints

USAGE = " Function {name}:\n  REG:{registers} STACK:{stack} SHARED:{shared} LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0\n"
BOUND = ".nv.info.{name}\n\t<0x1>\n\tAttribute:\tEIATTR_MAX_THREADS\n\tFormat:\tEIFMT_SVAL\n\tValue:\t0x{threads:x} 0x1 0x1 \n"


def wrong(name="_Z6kernelv", registers=64, stack=0, shared=0, threads=None):
    usage = USAGE.format(name=name, registers=registers, stack=stack, shared=shared)
    return complaints(usage, BOUND.format(name=name, threads=threads) if threads else "")


class CheckResources(unittest.TestCase):
    def test_a_kernel_that_fits(self):
        self.assertEqual(wrong(), ([], 1))
        self.assertEqual(wrong(registers=255, threads=256), ([], 1))

    def test_spills(self):
        self.assertIn("8 bytes of local memory", wrong(stack=8)[0][0])
        self.assertEqual(wrong(name="_Z11clip_kernelv", stack=8)[0], [])

    def test_registers_for_every_thread(self):
        self.assertIn("of 1024 threads", wrong(registers=65)[0][0])
        self.assertIn("of 512 threads", wrong(registers=129, threads=512)[0][0])
        self.assertIn("of 288 threads", wrong(registers=249, threads=257)[0][0])

    def test_shared_memory(self):
        self.assertIn("static shared memory", wrong(shared=49153)[0][0])

    def test_no_kernels(self):
        self.assertEqual(complaints("", ""), ([], 0))


if __name__ == "__main__":
    unittest.main()
