"""Every kept input once more, and some random ones: what the fuzzer found stays mended."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import corpus
from tests.fuzz.choices import Choices
from tests.fuzz.targets import TARGETS
from tests.helpers.examples import examples

EVERY = pytest.mark.parametrize("target", TARGETS)


@EVERY
def test_kept_inputs(target: str) -> None:
    for data in corpus.seeds(target):
        TARGETS[target](data)


@EVERY
def test_random_inputs(target: str) -> None:
    @settings(max_examples=examples(20))
    @given(st.binary(max_size=200))
    def holds(data: bytes) -> None:
        TARGETS[target](data)

    holds()


def test_there_is_no_corpus_without_a_target() -> None:
    assert {file.stem for file in corpus.FOLDER.iterdir()} == set(TARGETS)


def test_the_same_bytes_make_the_same_choices_to_the_end_and_beyond() -> None:
    for _ in range(2):
        choices = Choices(bytes([200, 1, 2, 0, 80, 3]))
        assert (choices.number(), choices.real(), choices.one_of("abc")) == (1, -9.75, "a")
        assert (choices.byte(), choices.byte(), bool(choices)) == (80, 3, False)
        assert (choices.byte(), choices.take(5)) == (0, b"")
