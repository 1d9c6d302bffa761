"""Which lines are a part's, and what the parts make together."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer.data.parts import part_range, read_part
from transformer.files import InputError
from transformer.text import read_pairs


@given(st.integers(0, 10**9), st.integers(1, 50))
def test_parts_follow_each_other_and_are_of_one_size(total, number):
    ranges = [part_range(total, (k, number)) for k in range(1, number + 1)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == total
    assert all(first[1] == second[0] for first, second in itertools.pairwise(ranges))
    sizes = [stop - start for start, stop in ranges]
    assert 0 <= max(sizes) - min(sizes) <= 1


LINE = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=3)
CORPUS = st.tuples(st.lists(st.tuples(LINE, LINE), min_size=1, max_size=9), st.booleans())


@given(st.lists(CORPUS, min_size=1, max_size=4), st.integers(1, 12))
def test_parts_end_to_end_are_all_pairs(tmp_path_factory, corpora, number):
    """This holds over the borders of corpora, with and without a last line end, whatever ends lines elsewhere."""
    folder = tmp_path_factory.mktemp("corpora")
    files = []
    for index, (pairs, ended) in enumerate(corpora):
        ended = ended or not all(pairs[-1])  # an empty last line needs its end
        paths = folder / f"{index}.en", folder / f"{index}.de"
        for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
            path.write_bytes(("\n".join(lines) + "\n" * ended).encode())
        files.append(paths)
    whole = [pair for paths in files for pair in read_pairs(*paths)]
    parts = [list(read_part(files, (k, number))) for k in range(1, number + 1)]
    assert list(itertools.chain.from_iterable(parts)) == whole
    assert len(whole) == sum(len(pairs) for pairs, _ in corpora)


@pytest.mark.parametrize("lengths", [(2, 3), (0, 0)])
def test_every_part_refuses_files_that_are_no_pairs(tmp_path, lengths):
    """A part refuses them even if it lies in other files."""
    good, bad = ((tmp_path / f"{name}.en", tmp_path / f"{name}.de") for name in ("good", "bad"))
    for path, length in zip([*good, *bad], [9, 9, *lengths], strict=True):
        path.write_text("x\n" * length)
    for corpora in ([good, bad], [bad, good]):
        with pytest.raises(InputError, match=rf"found.*{tmp_path}/bad\.en .*{tmp_path}/bad\.de "):
            list(read_part(corpora, (1, 2)))
