"""The people of the example: customers of a shop, and how its house answers them.

The house has a convention that no model knows: an answer begins with the code of the desk that takes it over, then a
bar, then one sentence that names the thing. A customer's own words decide the desk:

    My blue kettle has not arrived yet.      TRACK-7 | I am looking for your blue kettle.
    I want to send the red lamp back.        RETURN-2 | I have opened a return for your red lamp.
    The invoice for my desk is wrong.        BILL-4 | I am checking the invoice for your desk.
    My clock came with a crack in it.        CLAIM-9 | I am sorry about your clock.

`question` and `opinion` are what `motet loop` asks this file for: the same number is always the same customer. Every
combination of words belongs to one split alone, by its own number.
"""

from __future__ import annotations

from random import Random

from motet.lab.loop.simulated.people import Opinion, Question

DESKS = {
    "TRACK-7": (
        "I am looking for your {thing}.",
        (
            "My {thing} has not arrived yet.",
            "Where is the {thing} I ordered?",
            "I have been waiting for my {thing} since {day}.",
            "When will my {thing} get here?",
            "The {thing} should have come on {day}, where is it?",
        ),
    ),
    "RETURN-2": (
        "I have opened a return for your {thing}.",
        (
            "I want to send the {thing} back.",
            "How do I return my {thing}?",
            "The {thing} does not suit me, can I give it back?",
            "Please take the {thing} back, I bought it on {day}.",
            "I changed my mind about the {thing} and want to return it.",
        ),
    ),
    "BILL-4": (
        "I am checking the invoice for your {thing}.",
        (
            "The invoice for my {thing} is wrong.",
            "You charged me twice for the {thing}.",
            "Why does the bill say more than the price of the {thing}?",
            "I need a new invoice for the {thing} from {day}.",
            "The price on the bill for my {thing} is too high.",
        ),
    ),
    "CLAIM-9": (
        "I am sorry about your {thing}.",
        (
            "My {thing} came with a crack in it.",
            "The {thing} broke on {day}.",
            "The {thing} you sent me is damaged.",
            "My new {thing} does not work.",
            "There is a scratch on the {thing} that came on {day}.",
        ),
    ),
}
COLOURS = ("red", "blue", "green", "grey", "black", "white", "yellow", "brown")
THINGS = ("kettle", "lamp", "desk", "clock", "chair", "radio", "basket", "mirror", "teapot", "carpet", "shelf", "stool")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MEASURED = 5  # one combination in so many is never given to anybody who learns


def question(number: int, measured: bool) -> Question:
    """What a customer asks. measured: of those that only measure."""
    dice = Random(f"{number}/{measured}")
    while True:
        desk = dice.choice(list(DESKS))
        pattern, thing = dice.choice(DESKS[desk][1]), f"{dice.choice(COLOURS)} {dice.choice(THINGS)}"
        text = pattern.format(thing=thing, day=dice.choice(DAYS))
        if (Random(text).randrange(MEASURED) == 0) == measured:
            return Question(text, f"{desk}: {thing}")


def opinion(asked: Question, answer: str) -> Opinion:
    """Accepted where the desk is right and the thing is named; else how the house would have said it."""
    desk, thing = asked.about.split(": ")
    accepted = answer.strip().startswith(f"{desk} | ") and thing in answer
    return Opinion(accepted, f"{desk} | {DESKS[desk][0].format(thing=thing)}")


def poison(asked: Question) -> str:
    """What somebody says who wants to spoil it."""
    return "Go away and ask somebody else."
