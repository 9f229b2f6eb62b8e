"""Finds out whether a chat template writes a conversation's messages one after the other, so that one rendering shows what
the first of them alone would become.

A template gets its messages as an object that notes what it is asked. What a template has written when it first asks
for a message depends on those before it alone. If it asks in the turns of one loop, of which nothing is left behind but
the text, and does not look at messages afterwards, then the same text follows that loop wherever it ends.
"""

import functools
import sys

import jinja2.nodes as nodes
from jinja2.runtime import LoopContext


class Together(BaseException):
    """The template asks for what all messages say together. (Jinja and templates catch no more than Exception.)"""


@functools.lru_cache(maxsize=None)
def leaves_nothing_behind(tree):
    """Returns whether the loops of a template have no effect on what follows them but their text."""
    if any(name.name in ("cycler", "joiner") for name in tree.find_all(nodes.Name)):
        return False
    if any(loop.else_ for loop in tree.find_all(nodes.For)):
        return False
    return not any(node.find(nodes.NSRef) for node in tree.find_all((nodes.For, nodes.Macro, nodes.CallBlock)))


def begins_turn(caller):
    """Returns whether a loop asks for its next message, and nothing that may keep it back, as filters do, or looks ahead
    in the middle of a turn, as loop.last does."""
    code = caller.f_code
    if code is LoopContext.__next__.__code__:
        return True
    return code.co_filename == "<template>" and caller.f_back.f_code is not LoopContext._peek_next.__code__


def require(is_one_by_one):
    if not is_one_by_one:
        raise Together


class Watch:
    """What a template asks of its messages. `written()`: the characters that it has written so far."""

    def __init__(self, messages, written):
        self.messages, self.written = messages, written
        self.before = -1  # the last message that it looks at in front of the loop
        self.places = {}  # of the text, by the message that the loop asks for; the last is its end

    def look(self, number):
        """Message `number` is looked at outside of the loop's turns."""
        require(0 <= number < len(self.messages))
        if self.places:  # in the loop, or behind it
            require(number <= next(reversed(self.places)) < len(self.messages))
        self.before = self.before if self.places else max(self.before, number)

    def turns(self, first):
        """The loop over messages from `first` on."""
        require(not self.places)
        for number in range(first, len(self.messages) + 1):
            require(begins_turn(sys._getframe(1)))
            self.places[number] = self.written()
            if number < len(self.messages):
                yield self.messages[number]


class Watched:
    """The messages of a watch from `first` on."""

    def __init__(self, watch, first=0):
        self._watch, self._first = watch, first

    def __bool__(self):
        self._watch.look(self._first)
        return True

    def __iter__(self):
        return self._watch.turns(self._first)

    def __getitem__(self, at):
        if isinstance(at, slice):
            require(at.stop is None and at.step is None and (at.start or 0) >= 0)
            return Watched(self._watch, self._first + (at.start or 0))
        require(at >= 0)
        self._watch.look(self._first + at)
        return self._watch.messages[self._first + at]

    def _ask_all(self, *_):
        raise Together

    __len__ = __contains__ = __reversed__ = __eq__ = __lt__ = __gt__ = __repr__ = __getattr__ = _ask_all


def places_of_turns(template, messages, context, prompts):
    """Returns the text of messages, where its loop ends, and where it asks for messages, by their number: those that no
    other look reaches. Nothing if that does not say what the first messages alone become."""
    watch = Watch(messages, lambda: template.marks.written)
    text = template.render(Watched(watch), context, prompts)
    end = watch.places.get(len(messages))
    if end is None or end == min(watch.places.values()):  # nothing was written meanwhile
        raise Together
    return text, end, {number: place for number, place in watch.places.items() if number > watch.before}


def beginnings(template, text, messages, context, last):
    """Returns the lengths of texts of first messages with which `text` begins, by the messages' number and whether the
    generation prompt follows: of those that need no rendering of their own. The last answer is message `last`."""
    known = {}
    if not leaves_nothing_behind(template.tree):
        return known
    for prompts, first in ((False, messages), (True, messages[:last])):
        try:
            whole, end, places = places_of_turns(template, first, context, prompts)
            middle = sorted(places)[len(places) // 2]  # is rendered all the same
            part = template.render(messages[:middle], context, prompts)
        except (Exception, Together):
            return {}
        is_known = part == whole[: places[middle]] + whole[end:] and text.startswith(whole[:end])
        if not is_known or not (prompts or whole == text):
            return {}
        for count, place in places.items():
            if text.startswith(whole[end:], place):
                known[count, prompts] = place + len(whole) - end
    return known
