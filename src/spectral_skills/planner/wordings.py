"""Tables of `phrases`: what else people say for what a corpus says.

A rule is a pattern in an order (`walk forward`), other ways to say it that planners are
trained with, and ways that are held out. `\\1` is the first group of the pattern. An
order begins with a verb; `your` becomes `its` where a robot is talked about.
"""

import re
from typing import NamedTuple


class Rule(NamedTuple):
    """What may stand for a pattern in an order."""

    pattern: re.Pattern[str]
    training: tuple[str, ...]
    held_out: tuple[str, ...]


def _rule(pattern: str, training: str, held_out: str) -> Rule:
    """Ways to say it are separated by bars; spaces around them do not count."""
    ways = [tuple(w.strip(" \n") for w in t.split("|")) for t in (training, held_out)]
    return Rule(re.compile(rf"\b{pattern}\b"), *ways)


_SIDE, _FAR = "(left|right)", "( a little| halfway|)"
_HANDS = "(both hands|the (?:left|right) hand)"
_HERE = "(?: on the spot| in place)?"
_AGAIN = "(?: and stand up again| and come back up)?"

RULES = (
    # Travel.
    _rule(
        r"walk (?:straight ahead|ahead|forwards?)",
        "walk forward | walk ahead | walk straight ahead | walk forwards "
        "| go forward | move forward | go straight ahead | walk",
        "head straight on | advance | make your way forward | proceed ahead",
    ),
    _rule(
        r"walk backwards?",
        "walk backward | walk backwards | go backwards | move backward",
        "back away | retreat | walk in reverse | head backwards",
    ),
    _rule(
        rf"(?:step sideways|sidestep|walk sideways)(?: to the)? {_SIDE}",
        r"step sideways to the \1 | sidestep to the \1 | walk sideways to the \1 "
        r"| sidestep \1 | move sideways to the \1 | step sideways to your \1",
        r"shuffle over to the \1 | take side steps to the \1 | strafe \1 "
        r"| shift sideways to your \1",
    ),
    _rule(
        rf"turn around{_HERE} to the {_SIDE}",
        r"turn around to the \1 | turn around on the spot to the \1 "
        r"| turn around in place to the \1 | turn around to your \1",
        r"rotate all the way round to your \1 | pivot around to the \1 "
        r"| swivel around to the \1",
    ),
    _rule(
        rf"turn{_HERE}(?: to the)? {_SIDE}{_HERE}",
        r"turn to the \1 | turn \1 | turn in place to the \1 | turn to your \1 "
        r"| turn on the spot to the \1 | turn \1 in place",
        r"rotate to your \1 | pivot to the \1 | swivel \1 | rotate \1 on the spot",
    ),
    _rule(
        rf"walk (?:in a curve|along an arc|in a wide circle) to the {_SIDE}",
        r"walk in a curve to the \1 | walk along an arc to the \1 "
        r"| walk in a wide circle to the \1 | walk in a \1 curve "
        r"| go in a curve to the \1 | walk forward while turning \1",
        r"bear \1 | follow a bend to the \1 | circle round to the \1 "
        r"| walk along a curved path to your \1",
    ),
    _rule(
        r"(jog|run) (?:forward|straight ahead|at an easy pace)",
        r"\1 forward | \1 straight ahead | \1 ahead | \1 at an easy pace | \1",
        r"set off at a \1 | head straight on at a \1 | break into a \1",
    ),
    # On the spot.
    _rule(
        r"stand (?:still|on the spot|in place)",
        "stand still | stand in place | stand on the spot | just stand there "
        "| stay standing | stand without moving | keep still",
        "hold still | remain motionless | stay put | wait quietly | freeze",
    ),
    _rule(
        r"march (?:on the spot|in place)",
        "march on the spot | march in place | march in one place "
        "| march without moving forward",
        "do some marching on the spot | parade in place | keep up a march in place",
    ),
    _rule(
        rf"squat deeply{_AGAIN}",
        "squat deeply | squat deeply and stand up again | do a deep squat "
        "| squat deeply and come back up | squat down deeply",
        "sink into a deep squat | lower yourself into a deep squat "
        "| get all the way down on your haunches",
    ),
    _rule(
        rf"squat a little{_AGAIN}",
        "squat a little | squat a little and stand up again | do a small squat "
        "| squat a little and come back up | squat down a little",
        "sink into a slight squat | lower yourself a little into a squat "
        "| drop a little into a squat",
    ),
    _rule(
        rf"squat(?: down)?{_AGAIN}",
        "squat | squat down | squat down and stand up again | do a squat "
        "| squat down and come back up",
        "lower yourself into a squat | drop into a squat | get down on your haunches",
    ),
    _rule(
        r"bow deeply",
        "bow deeply | make a deep bow | bow deeply to the front | bow down deeply",
        "take a deep bow | bend far forward from the waist | give a deep bow",
    ),
    _rule(
        r"bow politely",
        "bow politely | make a polite bow | bow | bow politely to the front",
        "take a bow | bend forward from the waist | give a polite bow",
    ),
    _rule(
        r"bow slightly",
        "bow slightly | make a slight bow | bow a little | bow slightly to the front",
        "take a small bow | bend slightly forward from the waist | give a slight bow",
    ),
    # Arms.
    _rule(
        rf"raise the {_SIDE} arm{_FAR}",
        r"raise the \1 arm\2 | lift the \1 arm\2 | raise your \1 arm\2 "
        r"| lift your \1 arm\2 | put the \1 arm up\2 | raise the \1 hand\2",
        r"bring your \1 arm up\2 | get the \1 arm up\2 | stick your \1 arm up\2 "
        r"| move the \1 arm upwards\2",
    ),
    _rule(
        rf"raise both arms{_FAR}",
        r"raise both arms\1 | lift both arms\1 | raise the two arms\1 "
        r"| raise your arms\1 | put both arms up\1 | raise both hands\1",
        r"bring both arms up\1 | get both your arms up\1 | stick both arms up\1",
    ),
    _rule(
        rf"spread the arms(?: to the sides| wide)?{_FAR}",
        r"spread the arms\1 | spread your arms\1 | spread both arms\1 "
        r"| hold the arms out to the sides\1 | stretch the arms out to the sides\1",
        r"hold your arms out like wings\1 | extend both arms sideways\1 "
        r"| put your arms out on either side\1",
    ),
    _rule(
        rf"reach forward{_FAR} with {_HANDS}",
        r"reach forward\1 with \2 | stretch \2 forward\1 | hold \2 out in front\1 "
        r"| reach out\1 with \2 | reach out in front\1 with \2",
        r"extend \2 to the front\1 | stick \2 out in front\1 | thrust \2 forward\1",
    ),
    _rule(
        rf"reach up{_FAR} with {_HANDS}",
        r"reach up\1 with \2 | stretch \2 up\1 | reach upward\1 with \2 "
        r"| stretch \2 upward\1",
        r"extend \2 overhead\1 | reach\1 towards the ceiling with \2 "
        r"| reach\1 for the sky with \2",
    ),
    _rule(
        rf"wave the {_SIDE} hand",
        r"wave the \1 hand | wave with the \1 hand | wave your \1 hand "
        r"| wave with your \1 hand | wave the \1 arm | wave hello with the \1 hand",
        r"give a wave with your \1 hand | say hi with your \1 hand "
        r"| greet somebody with your \1 hand | do a wave using the \1 hand",
    ),
    _rule(
        r"punch with (both fists|the (?:left|right) fist)",
        r"punch with \1 | throw punches with \1 | punch the air with \1 "
        r"| box with \1 | punch forward with \1",
        r"hit out with \1 | throw a few jabs with \1 | shadow-box with \1",
    ),
    _rule(
        r"carry (a box|a crate|something)(?: with both hands)?",
        r"carry \1 with both hands | carry \1 | hold \1 with both hands "
        r"| carry \1 in front of the body",
        r"cradle \1 in both arms | keep hold of \1 | clutch \1 to your chest",
    ),
    # Manners, as gestures of the whole body.
    _rule(
        r"crouch",
        "crouch | stay in a crouch | crouch down | bend the knees",
        "hunker down | stay low on bent legs | keep low",
    ),
    _rule(
        r"(?:step high|lift the feet high)",
        "step high | lift the feet high | take high steps | lift your feet high",
        "pick your feet well up | take tall steps | bring the knees up with each step",
    ),
    # Paces.
    _rule(
        r"(?:slowly|at a slow pace|at a leisurely pace)",
        "slowly | at a slow pace | at a leisurely pace",
        "without any hurry | at a low speed | nice and slow",
    ),
    _rule(
        r"(?:quickly|at a brisk pace|fast)",
        "quickly | at a brisk pace | fast | briskly",
        "at speed | in a hurry | at a rapid clip",
    ),
    _rule(r"at a steady pace", "| at a steady pace | steadily", "at an even speed"),
)

STATES = (
    (r"with (the (?:left|right) arm|both arms) raised( a little| halfway|)", "raise"),
    (r"with the arms spread( a little| halfway|)", "spread"),
    (rf"with {_HANDS} stretched forward( a little| halfway|)", "reach"),
    (r"carrying (a box|a crate|something)", "carry"),
    (r"in a crouch|with bent knees", "crouch"),
    (r"with high steps|with exaggerated steps", "step high"),
)
"""What a corpus says of a state, and of which order that is the state."""

FRAMES = {
    "please {do}": "your",
    "robot, {do}": "your",
    "the robot is {doing}": "its",
    "a humanoid {doing}": "its",
    "the robot {does}": "its",
    "a person is {doing}": "their",
}
"""What an order stands in, and whose arms they then are."""
HELD_OUT_FRAMES = {
    "can you {do}": "your",
    "i would like you to {do}": "your",
    "the humanoid should {do}": "its",
    "could you {do} now": "your",
    "i want the robot to {do}": "its",
    "let me see you {do}": "your",
}
JOINS = ("{act} while {doing}", "{order} while {acting}", "{act} and {order}")
HELD_OUT_JOINS = (
    "{act} and meanwhile {order}",
    "{order} at the same time as {acting}",
)
