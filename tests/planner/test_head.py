"""The head: the size of GR00T's, deaf to padding, and the same after export."""

from dataclasses import replace

import pytest
import torch
from small_planner import HEAD

from spectral_skills.planner.model import Head, HeadConfig, wave

INPUTS = ("noisy", "bucket", "state", "text", "mask")


def _head(**changes) -> Head:
    torch.manual_seed(0)
    return Head(replace(HEAD, **changes)).eval()


def _inputs(n: int = 4, k: int = 6) -> dict[str, torch.Tensor]:
    """Random ones; sentences of one to k tokens."""
    lengths = 1 + torch.arange(n) % k
    return {
        "noisy": torch.randn(n, HEAD.chunk, HEAD.action),
        "bucket": torch.randint(1000, (n,)),
        "state": torch.randn(n, HEAD.state),
        "text": torch.randn(n, k, HEAD.text),
        "mask": torch.arange(k) < lengths[:, None],
    }


def test_the_paper_s_head_has_its_parameters():
    """521.9 million for one robot, 64 numbers a skill, and sentences of 384."""
    with torch.device("meta"):
        head = Head(HeadConfig())
    count = sum(parameter.numel() for parameter in head.parameters())
    assert round(count / 1e6, 1) == 521.9


def test_blocks_listen_in_turn():
    """Even ones to the sentence, odd ones to 31 tokens."""
    head = _head(layers=4)
    sources = [block.attention.key.in_features for block in head.blocks]  # type: ignore
    assert sources == [HEAD.text, HEAD.width, HEAD.text, HEAD.width]
    assert len(head.context(*[_inputs()[name] for name in INPUTS[2:]]).text) == 2


@pytest.mark.parametrize("normal", [True, False])
def test_normal_queries_attend_alike_however_large_they_are(normal):
    """Otherwise attention hardens as weights grow, until training breaks down."""
    head, given = _head(normal_queries=normal), _inputs()
    want = head(**given)
    with torch.no_grad():
        for block in head.blocks:
            block.attention.query.weight *= 100  # type: ignore
            block.attention.query.bias *= 100  # type: ignore
    assert torch.allclose(head(**given), want, atol=1e-4) == normal


def test_padding_is_never_heard():
    """Whatever it holds, wherever it is, and however much there is of it."""
    head, given = _head(), _inputs()
    want = head(**given)
    padding = ~given["mask"][..., None]
    loud = torch.where(padding, 100 * torch.randn_like(given["text"]), given["text"])
    assert torch.equal(head(**given | {"text": loud}), want)
    order = torch.tensor([4, 0, 3, 5, 2, 1])
    mixed = {"text": loud[:, order], "mask": given["mask"][:, order]}
    assert torch.allclose(head(**given | mixed), want, atol=1e-5)
    longer = {
        "text": torch.cat((loud, loud), dim=1),
        "mask": torch.cat((given["mask"], torch.zeros_like(given["mask"])), dim=1),
    }
    assert torch.allclose(head(**given | longer), want, atol=1e-5)


def test_words_are_heard():
    """All of them, and by every step of the chunk."""
    head, given = _head(), _inputs(1, 3)
    given["mask"][:] = True
    for word in range(3):
        other = given["text"].clone()
        other[:, word] += torch.randn(HEAD.text)
        change = head(**given | {"text": other}) - head(**given)
        assert (change.abs().amax(-1) > 0).all()


def test_rows_of_a_batch_do_not_touch_each_other():
    """Each is what it would be alone."""
    head, given = _head(), _inputs()
    together = head(**given)
    for row in range(4):
        alone = head(**{name: value[row : row + 1] for name, value in given.items()})
        assert torch.allclose(alone[0], together[row], atol=1e-5)


def test_one_sentence_may_be_for_all():
    """It need not be repeated, and neither need the time."""
    head, given = _head(), _inputs()
    one = {name: given[name][2:3] for name in ("bucket", "text", "mask")}
    many = {name: value.expand(4, *value.shape[1:]) for name, value in one.items()}
    assert torch.allclose(head(**given | one), head(**given | many), atol=1e-5)


def test_a_state_that_is_not_kept_has_no_influence():
    """Its token is zero."""
    head, given = _head(), _inputs()
    keep = torch.tensor([True, False, True, False])
    token = head.context(given["state"], given["text"], given["mask"], keep).state
    assert (token[~keep] == 0).all() and (token[keep] != 0).any(-1).all()
    other = {"state": torch.randn_like(given["state"])}
    before, after = head(**given, keep=keep), head(**given | other, keep=keep)
    assert torch.equal(before[~keep], after[~keep])
    assert (before[keep] != after[keep]).any(-1).all()


def test_waves_are_sines_then_cosines():
    """At frequencies that fall from 1 towards 1/10,000."""
    found = wave(torch.tensor([0, 250]), 6)
    assert torch.equal(found[0], torch.tensor([0.0, 0, 0, 1, 1, 1]))
    angles = 250 * 10_000 ** (-torch.arange(3) / 3)
    want = torch.cat((angles.sin(), angles.cos()))
    assert torch.allclose(found[1], want, atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"heads": 3}, "by 3 heads"), ({"positions": 20}, "20 positions are too few")],
)
def test_sizes_that_do_not_fit_are_explained(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(HEAD, **changes)
