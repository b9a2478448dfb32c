"""The driver for CUDA devices: its calls of pycuda, on a stand-in that records them; and, with `-m gpu`, on a device."""

from __future__ import annotations

import struct
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from polyreme.runtime.gpu.drivers import GpuError, OutOfMemoryError, open_driver


class FakeError(Exception):
    pass


class FakeMemoryError(FakeError):
    pass


class Memory:
    """What pycuda gives for an allocation: a number that can be freed."""

    freed: list[int] = []

    def __init__(self, size):
        if size > 1 << 30:
            raise FakeMemoryError("out of memory")
        self.array = np.zeros(size, np.uint8)
        self.address = 4096 * (1 + len(Fake.memories))
        Fake.memories[self.address] = self

    def __int__(self):
        return self.address

    def free(self):
        Memory.freed.append(self.address)


class Fake:
    memories: dict[int, Memory] = {}
    calls: list[tuple] = []
    devices = 1
    version = 13000
    capability = (9, 0)


class Context:
    def push(self):
        Fake.calls.append(("push",))

    def pop(self):
        Fake.calls.append(("pop",))

    def synchronize(self):
        Fake.calls.append(("synchronize",))


class Device:
    def __init__(self, number):
        self.number = number

    @staticmethod
    def count():
        return Fake.devices

    def retain_primary_context(self):
        return Context()

    def compute_capability(self):
        return Fake.capability

    def name(self):
        return "Fake GPU"

    def total_memory(self):
        return 1 << 30

    def get_attribute(self, attribute):
        return {"multiprocessors": 132, "shared bytes": 232448}[attribute]


class Function:
    arg_format = None

    def prepare(self, arg_types):
        Fake.calls.append(("prepare",))
        self.arg_format = "".join(arg_types)

    def prepared_call(self, grid, block, *args, shared_size=0):
        Fake.calls.append(("launch", struct.pack(self.arg_format, *args), grid, block, shared_size))

    def set_attribute(self, attribute, value):
        if value > 232448:
            raise FakeError("invalid argument")
        Fake.calls.append(("set", attribute, value))


class LoadedModule:
    def __init__(self, text):
        Fake.calls.append(("load", text))

    def get_function(self, name):
        if name != "work":
            raise FakeError("named symbol not found")
        return Function()


@pytest.fixture
def pycuda(monkeypatch):
    driver = ModuleType("pycuda.driver")
    driver.Error, driver.MemoryError = FakeError, FakeMemoryError
    driver.get_driver_version = lambda: Fake.version
    driver.init = lambda: None
    driver.Device = Device
    driver.mem_alloc = Memory
    driver.device_attribute = SimpleNamespace(MULTIPROCESSOR_COUNT="multiprocessors", MAX_SHARED_MEMORY_PER_BLOCK_OPTIN="shared bytes")
    driver.function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic shared bytes")

    def htod(address, array):
        Fake.memories[address].array[: array.size] = array

    def dtoh(array, address):
        array[:] = Fake.memories[address].array[: array.size]

    driver.memcpy_htod, driver.memcpy_dtoh, driver.module_from_buffer = htod, dtoh, LoadedModule
    package = ModuleType("pycuda")
    package.driver = driver
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    monkeypatch.setattr(Fake, "memories", {})
    monkeypatch.setattr(Fake, "calls", [])
    monkeypatch.setattr(Fake, "devices", 1)
    monkeypatch.setattr(Fake, "version", 13000)
    monkeypatch.setattr(Fake, "capability", (9, 0))
    monkeypatch.setattr(Memory, "freed", [])
    return driver


def test_data_goes_to_the_device_and_back(pycuda):
    driver = open_driver("gpu")
    assert (driver.name, driver.sm) == ("gpu", 90)
    address = driver.allocate(12)
    driver.upload(address, np.array([1, 2, 3], np.float32))
    back = np.zeros((3, 1), np.float32)
    driver.download(address, back)
    assert back.reshape(-1).tolist() == [1, 2, 3]
    driver.free(address)
    assert Memory.freed == [address]
    with pytest.raises(GpuError, match="expected the address of an allocation but got"):
        driver.free(address)
    with pytest.raises(GpuError, match="expected a contiguous array to upload but got a strided one"):
        driver.upload(address, np.zeros((4, 4))[:, 1])


def test_a_kernel_is_launched_with_64_bit_arguments(pycuda):
    driver = open_driver("gpu")
    function = driver.load_module("text").function("work")
    driver.launch(function, (3,), (32, 2), [4096, -1])
    driver.launch(function, (0, 2), (32,), [4096, 5])
    assert ("load", b"text\0") in Fake.calls
    launches = [c for c in Fake.calls if c[0] == "launch"]
    assert len(launches) == 1, "an empty grid is launched nowhere"
    assert launches[0] == ("launch", struct.pack("qq", 4096, -1), (3, 1, 1), (32, 2, 1), 0)
    driver.launch(function, (1,), (32,), [4096, 2])
    assert Fake.calls.count(("prepare",)) == 1 and len([c for c in Fake.calls if c[0] == "launch"]) == 2


def test_a_kernel_is_told_of_shared_memory_beyond_what_it_always_has(pycuda):
    driver = open_driver("gpu")
    assert driver.shared_bytes == 227 << 10
    module = driver.load_module("text")
    module.function("work", 48 << 10)
    assert not [c for c in Fake.calls if c[0] == "set"]
    function = module.function("work", 100_000)
    assert Fake.calls[-1] == ("set", "dynamic shared bytes", 100_000)
    driver.launch(function, (3,), (32,), [4096], 100_000)
    assert Fake.calls[-1] == ("launch", struct.pack("q", 4096), (3, 1, 1), (32, 1, 1), 100_000)
    with pytest.raises(GpuError, match="could not give 'work' 300000 bytes of shared memory: invalid argument"):
        module.function("work", 300_000)


def test_failures_are_errors_of_ours(pycuda):
    driver = open_driver("gpu")
    with pytest.raises(GpuError, match="could not allocate 2147483648 bytes: out of memory"):
        driver.allocate(1 << 31)
    with pytest.raises(GpuError, match="expected a kernel called 'other': named symbol not found"):
        driver.load_module("text").function("other")
    with pytest.raises(GpuError, match="expected a CUDA device below 1 but got 1"):
        open_driver("gpu", device=1)


def test_no_device_is_an_error_that_says_what_to_do(pycuda):
    def fail():
        raise FakeError("no CUDA-capable device is detected")

    pycuda.init = fail
    with pytest.raises(GpuError, match="expected a CUDA device, or use 'gpu-emulated': no CUDA-capable device"):
        open_driver("gpu")


@pytest.mark.parametrize(("version", "ptx", "needed"), [(11070, "7.8", "11.8"), (10020, "7.0", "11.0"), (9020, "6.3", "10.0")])
def test_a_driver_that_is_too_old_for_the_kernels_is_an_error_that_says_so(pycuda, version, ptx, needed):
    Fake.version = version
    driver = open_driver("gpu")
    assert driver.ptx < 10 * int(ptx.split(".")[0]) + int(ptx.split(".")[1])
    own = f"{version // 1000}.{version % 1000 // 10}"
    with pytest.raises(GpuError, match=f"expected a driver for CUDA {needed} or newer, since the kernels are PTX {ptx}, but .* for {own}"):
        driver.load_module(f"//\n.version {ptx}\n.target sm_90\n")
    Fake.version = 1000 * int(needed.split(".")[0]) + 10 * int(needed.split(".")[1])
    driver.load_module(f"//\n.version {ptx}\n.target sm_90\n")


def test_a_device_that_is_too_old_is_an_error_that_says_so(pycuda):
    Fake.capability = (7, 0)
    with pytest.raises(GpuError, match=r"expected a GPU of compute capability 7\.5 or newer but 'Fake GPU' has 7\.0: use 'cpu'"):
        open_driver("gpu")
    assert Fake.calls.count(("pop",)) == 1


def test_memory_that_is_not_there_is_an_error_of_its_own(pycuda):
    with pytest.raises(OutOfMemoryError, match="could not allocate 2147483648 bytes: out of memory"):
        open_driver("gpu").allocate(1 << 31)


def test_closing_frees_what_is_left_once(pycuda):
    driver = open_driver("gpu")
    address = driver.allocate(4)
    driver.close()
    driver.close()
    assert Memory.freed == [address] and Fake.calls.count(("pop",)) == 1


@pytest.mark.gpu
def test_a_device_keeps_what_it_is_given():
    driver = open_driver("gpu")
    data = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    address = driver.allocate(data.nbytes)
    assert address % 256 == 0
    start = driver.event()
    driver.upload(address, data)
    back = np.zeros_like(data)
    driver.download(address, back)
    driver.synchronize()
    assert np.array_equal(back, data) and driver.elapsed_ms(start, driver.event()) > 0
    driver.free(address)
