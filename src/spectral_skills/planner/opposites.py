"""Words that a language model hardly tells apart: left and right, up and down.

To all-MiniLM-L6-v2 `raise the left arm` and `raise the right arm` are nearly one
sentence (cosine 0.98), so what is opposite is compared by rules.
"""

import re
from collections.abc import Mapping

Traits = Mapping[str, frozenset[str]]
_TRAITS: dict[str, dict[str, str]] = {
    "side": {
        "left": r"left(?:wards?)?",
        "right": r"right(?:wards?)?(?! (?:down|up|there|here|away|now|over)\b)",
        "both": r"both|two|arms|hands|fists",
    },
    "way": {
        "forward": r"(?:for|on)wards?|ahead|straight(?: on)?|advanc\w+",
        "backward": r"backwards?|back(?! up\b)|rearwards?|revers\w+|retreat\w*",
        "sideways": r"side(?:ways|wards?|step\w*)|side steps?|strafe|shuffle",
    },
    "height": {
        "up": r"up|upwards?|rais\w+|lift\w*|high|higher|ris\w+|overhead|tall|sky"
        r"|ceiling",
        "down": r"down|downwards?|lower\w*|low|sink\w*|drop\w*",
    },
    "pace": {
        "fast": r"quick\w*|fast|faster|brisk\w*|rapid\w*|hurry|speed up|at speed"
        r"|swift\w*|(?:high|more|higher) speed",
        "slow": r"slow\w*|leisurely|(?:low|less|lower) speed|without (?:any )?hurry"
        r"|gently",
    },
}
_PATTERNS = {
    trait: {value: re.compile(rf"\b(?:{words})\b") for value, words in values.items()}
    for trait, values in _TRAITS.items()
}
_PACES = re.compile(
    r"\bwithout (?:any )?hurry\b|\b\w+ speed\b|\bspeed up\b|\bat speed\b"
)
_STOP = re.compile(
    r"(?:stop|halt|freeze|wait|hold on|hold it|pause|stand by|(?:don'?t|do not) move)\b"
)
_DENIED = re.compile(r"\b(?:don'?t|do not|not|never|no longer)\b")
_STILL = re.compile(r"\b(?:still|without moving|motionless|stay standing)\b")


def traits(sentence: str) -> dict[str, frozenset[str]]:
    """Which of the opposites a sentence names."""
    sentence = sentence.lower().replace("’", "'")
    # `at a low speed` says nothing of heights, `without hurry` is not in a hurry.
    bare = _PACES.sub(" ", sentence)
    slow = _PATTERNS["pace"]["slow"].search(sentence)
    found = {}
    for trait, values in _PATTERNS.items():
        text = bare if trait != "pace" or slow else sentence
        named = {value for value, words in values.items() if words.search(text)}
        if trait == "pace" and slow:
            named.add("slow")
        found[trait] = frozenset(named)
    return found


def opposed(some: Traits, others: Traits) -> bool:
    """Whether both name a trait, and nothing of it in common.

    One arm instead of both is not the opposite, though different.
    """
    return any(
        some[trait] and others[trait] and not some[trait] & others[trait]
        for trait in _TRAITS
        if "both" not in some[trait] | others[trait]
    )


def differences(some: Traits, others: Traits) -> int:
    """Number of values that only one of the two names."""
    return sum(len(some[trait] ^ others[trait]) for trait in _TRAITS)


def stops(sentence: str) -> bool:
    """Whether a sentence tells to stop what is being done."""
    return _STOP.match(sentence.replace("’", "'")) is not None


def denies(sentence: str) -> bool:
    """Whether a sentence tells not to do something."""
    return _DENIED.search(sentence.replace("’", "'")) is not None


def rests(sentence: str) -> bool:
    """Whether a sentence tells to be still."""
    return _STILL.search(sentence) is not None
