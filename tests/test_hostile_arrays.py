"""Arrays of other libraries that lie about themselves, that raise, or that change the pack."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import raggeddnn as rd
from dlpack_by_hand import Producer
from plugins.fakes import LikeTorch

COUNT = 1000
FEW = 4


class Copy:
    """A plan that copies COUNT numbers, and a spare pair of tensors of four."""

    def __init__(self, count: int = COUNT) -> None:
        g = rd.Graph(io_data_type=rd.DataType.FLOAT)
        self.x, self.spare = g.tensor(name="x", dim=[count]), g.tensor(name="spare", dim=[FEW])
        copy = rd.PointwiseMode.IDENTITY
        self.y, self.z = (g.pointwise(copy, t).set_output(True) for t in (self.x, self.spare))
        self.y.set_name("y")
        self.plan = g.build(engine="reference")
        self.out = np.zeros(count, np.float32)

    def pack(self, **more: Any) -> dict[Any, Any]:
        arrays = {"x": np.full(len(self.out), 3, np.float32), "y": self.out}
        arrays |= {"spare": np.ones(FEW, np.float32), "z": np.zeros(FEW, np.float32), **more}
        return {getattr(self, name): array for name, array in arrays.items()}


@pytest.fixture(scope="module")
def copy() -> Copy:
    return Copy()


def torch_like(array: Any, **methods: Any) -> LikeTorch:
    """A fake tensor, some of whose methods return something else."""
    fake = LikeTorch(array)
    for name, value in methods.items():
        setattr(fake, name, value if name == "shape" else lambda value=value: value)
    return fake


@contextlib.contextmanager
def refused(memory: Any, words: str) -> Iterator[None]:
    """InvalidValueError naming the tensor, and nothing written, not even past the array."""
    before = memory.copy()
    with pytest.raises(rd.InvalidValueError, match=words):
        yield
    np.testing.assert_array_equal(memory, before)


# ---- shapes ----

DIM = r"'y' .*an array with a dim of -1, expected 0 or more"
ITEM = r"'y' .*type float32 with elements of {} bytes, expected 4"
COUNTS = r"'y' .*an array of {} dims and {} strides, expected as many"
LIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "dlpack, negative": (lambda a: Producer(a, [-1], [1]), DIM),
    "dlpack, negative beside none": (lambda a: Producer(a, [0, -1], [1, 1]), DIM),
    "dlpack, negative, row-major": (lambda a: Producer(a, [-1, 4]), DIM),
    "dlpack, unversioned": (lambda a: Producer(a, [-1], [1], versioned=False), DIM),
    "data_ptr, negative": (lambda a: torch_like(a, shape=(-1,)), DIM),
    "data_ptr, two negative": (lambda a: torch_like(a, shape=(-1, -1), stride=(9, 1)), DIM),
    "element_size negative": (lambda a: torch_like(a, element_size=-4), ITEM.format(-4)),
    "element_size 0": (lambda a: torch_like(a, element_size=0), ITEM.format(0)),
    "element_size of doubles": (lambda a: torch_like(a, element_size=8000), ITEM.format(8000)),
    "no strides": (lambda a: torch_like(a, stride=()), COUNTS.format(1, 0)),
    "a stride too many": (lambda a: torch_like(a, stride=(1, 1)), COUNTS.format(1, 2)),
    "no shape": (lambda a: torch_like(a, shape=()), COUNTS.format(0, 1)),
    "an extent of 2^63": (lambda a: torch_like(a, shape=(2,), stride=(2**63 - 1,)), "2\\^63"),
}


@pytest.mark.parametrize("case", LIES)
def test_shapes_that_no_memory_has_are_refused(copy, case):
    lie, words = LIES[case]
    memory = np.zeros(4 * COUNT, np.float32)
    with refused(memory, words):
        copy.plan.execute(copy.pack(y=lie(memory[:FEW])))


def test_a_workspace_and_other_places_for_arrays_are_read_alike(copy):
    few = np.zeros(FEW, np.float32)
    with pytest.raises(rd.InvalidValueError, match="workspace got an array with a dim of -1"):
        copy.plan.execute(copy.pack(), workspace=Producer(few, [-1], [1]))
    with pytest.raises(rd.InvalidValueError, match="tensor_like got an array with a dim of -1"):
        rd.Graph().tensor_like(Producer(few, [-1], [1]))
    with pytest.raises(rd.InvalidValueError, match="an array with a dim of -1"):
        rd.tensor.ShallowTensor(Producer(few, [-1], [1]), [1000], [1])


NOT_NUMBERS: dict[str, dict[str, Any]] = {
    "data_ptr": {"None": None, "-1": -1, "2**64": 2**64, "text": "12", "a float": 1.5},
    "shape": {"None": (None,), "text": ("4",), "2**63": (2**63,)},
    "stride": {"text": ("1",), "2**63": (2**63,)},
    "element_size": {"None": None, "text": "4", "2**63": 2**63},
}


@pytest.mark.parametrize(
    ("method", "value"),
    [(method, value) for method, values in NOT_NUMBERS.items() for value in values],
)
def test_what_is_no_number_is_named(copy, method, value):
    memory = np.zeros(COUNT, np.float32)
    lie = torch_like(memory, **{method: NOT_NUMBERS[method][value]})
    with refused(memory, rf"'y' .*{method}.*expected (an|ints|an array)"):
        copy.plan.execute(copy.pack(y=lie))


def test_a_device_or_bit_that_is_none_is_named(copy):
    memory = np.zeros(COUNT, np.float32)
    device = torch_like(memory)
    device.device.type = 3
    with refused(memory, "'y' .*array whose device is 3, expected a str"):
        copy.plan.execute(copy.pack(y=device))
    with refused(memory, "'y' .*array whose is_neg is 'x', expected a bool"):
        copy.plan.execute(copy.pack(y=torch_like(memory, is_neg="x")))


@pytest.mark.parametrize("shape", [None, 3, ([4], None), ([2**63], [1])], ids=str)
def test_overrides_are_dims_and_strides(copy, shape):
    with pytest.raises(rd.InvalidValueError, match=r"overrides: uid \d+ got .*expected \(dims"):
        copy.plan.execute(copy.pack(), overrides={copy.x: shape})


@pytest.mark.parametrize("stream", [-1, 2**64, "text", 1.5, True], ids=str)
def test_a_stream_is_an_address(copy, stream):
    with pytest.raises(rd.InvalidValueError, match=r"stream.* got .*expected"):
        copy.plan.execute(copy.pack(), stream=stream)

    class Stream:
        cuda_stream = stream

    with pytest.raises(rd.InvalidValueError, match=r"stream\.cuda_stream got .*expected"):
        copy.plan.execute(copy.pack(), stream=Stream())


# ---- exceptions ----


class Raises:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __dlpack__(self, **options: Any) -> Any:
        raise self.error

    def __index__(self) -> int:
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), MemoryError()], ids=repr)
def test_an_interrupt_in_an_exporter_stays_one(copy, error):
    for run in (
        lambda: copy.plan.execute(copy.pack(x=Raises(error))),
        lambda: copy.plan.execute(copy.pack(), workspace=Raises(error)),
        lambda: rd.Graph().tensor_like(Raises(error)),
    ):
        with pytest.raises(type(error)) as caught:
            run()
        assert caught.value is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ZeroDivisionError()], ids=repr)
def test_what_an_index_raises_stays_what_it_is(copy, error):
    for run in (
        lambda: copy.plan.execute({Raises(error): copy.out}),
        lambda: copy.plan.execute(copy.pack(), stream=Raises(error)),
    ):
        with pytest.raises(type(error)) as caught:
            run()
        assert caught.value is error


def test_an_exporter_s_own_error_is_quoted_in_a_line(copy):
    words = r"'x' .*DLPack cannot export: ValueError: no reason$"
    with pytest.raises(rd.InvalidValueError, match=words) as caught:
        copy.plan.execute(copy.pack(x=Raises(ValueError("no reason"))))
    assert "\n" not in str(caught.value)


# ---- a pack that changes ----


class Exports:
    """An array that calls `change` when it is read."""

    def __init__(self, change: Callable[[], object]) -> None:
        self.change, self.memory = change, np.full(FEW, 7, np.float32)

    def __dlpack__(self, **options: Any) -> Any:
        self.change()
        return self.memory.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


CHANGES: dict[str, Callable[[Copy, dict[Any, Any]], object]] = {
    "pop": lambda copy, pack: pack.pop(copy.x),
    "clear": lambda copy, pack: pack.clear(),
    "grow": lambda copy, pack: pack.update((n, n) for n in range(5000)),
    "replace": lambda copy, pack: pack.update({copy.x: None}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_exporter_may_change_the_pack(change):
    """What was in the pack when execute began is used, and held until it ends."""
    copy = Copy(1 << 18)  # large enough that NumPy gives the memory back at once
    pack = copy.pack()
    source = weakref.ref(pack[copy.x])
    held: list[bool] = []

    def alter() -> None:
        CHANGES[change](copy, pack)
        gc.collect()
        held.append(change == "grow" or source() is not None)

    pack[copy.spare] = Exports(alter)
    z = pack[copy.z]
    copy.plan.execute(pack)
    assert held == [True] and (copy.out == 3).all() and (z == 7).all()
    if change != "grow":
        assert source() is None, "held longer than the call"


def test_another_thread_may_change_the_pack():
    copy = Copy(1 << 16)
    pack = copy.pack()
    stop = threading.Event()

    def alter() -> None:
        while not stop.is_set():
            pack[copy.x] = np.full(1 << 16, 3, np.float32)
            pack[copy.y] = np.zeros(1 << 16, np.float32)

    thread = threading.Thread(target=alter)
    thread.start()
    try:
        for _ in range(300):
            copy.plan.execute(pack)
    finally:
        stop.set()
        thread.join()
    copy.plan.execute(pack)
    assert (pack[copy.y] == 3).all()


def test_a_workspace_that_only_its_capsule_holds_is_held():
    """The memory of an export that is a copy goes with the capsule."""
    copy = Copy()
    exported: list[weakref.ref[Any]] = []
    alive: list[bool] = []

    class Workspace:
        def __dlpack__(self, **options: Any) -> Any:
            array = np.zeros(COUNT, np.float32).view(Tracked)
            exported.append(weakref.ref(array))
            return array.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    def look() -> None:
        alive.append(exported[0]() is not None)

    copy.plan.execute(copy.pack(spare=Exports(look)), workspace=Workspace())
    assert alive == [True] and exported[0]() is None


class Tracked(np.ndarray):
    """An array that can be referred to weakly."""


def test_overrides_may_change_while_they_are_read():
    class Key:
        def __index__(self) -> int:
            overrides.clear()
            return 1

    copy = Copy()
    overrides: dict[Any, Any] = {Key(): ([COUNT], [1]), 2: ([FEW], [1])}
    with pytest.raises(rd.InvalidValueError, match="got 2 shape overrides, expected none"):
        copy.plan.execute(copy.pack(), overrides=overrides)


def test_a_graph_may_be_built_again_while_its_plan_runs():
    g = rd.Graph(io_data_type=rd.DataType.FLOAT)
    x = g.tensor(name="x", dim=[FEW])
    y = g.pointwise(rd.PointwiseMode.IDENTITY, x).set_output(True)
    g.build(engine="reference")
    out = np.zeros(FEW, np.float32)

    g.execute({x: Exports(lambda: g.build(engine="reference")), y: out})
    assert (out == 7).all()
