"""Finds out whether a chat template writes a conversation's messages one after the other, so that one rendering shows what
the first of them alone would become.

A template gets its messages as an object that notes what it is asked. What a template has written when it first asks
for a message depends on those before it alone. If it asks in the turns of one loop, of which nothing is left behind but
the text, and does not look at messages afterwards, then the same text follows that loop wherever it ends.
"""

import collections.abc
import sys

import jinja2.nodes as nodes
from jinja2.runtime import LoopContext


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


class Watch:
    """What a template asks of its messages. `written()`: the characters that it has written so far."""

    def __init__(self, messages, written):
        self.messages, self.written = messages, written
        self.is_one_by_one = True
        self.before = -1  # the last message that it looks at in front of the loop
        self.places = {}  # of the text, by the message that the loop asks for; the last is its end

    def look(self, number):
        """Message `number` is looked at outside of the loop's turns."""
        if self.places:  # in the loop, or behind it
            self.is_one_by_one &= number <= next(reversed(self.places)) < len(self.messages)
        else:
            self.before = max(self.before, number)
        self.is_one_by_one &= 0 <= number < len(self.messages)

    def turns(self, first):
        """The loop over messages from `first` on."""
        self.is_one_by_one &= not self.places
        for number in range(first, len(self.messages) + 1):
            self.is_one_by_one &= begins_turn(sys._getframe(1))
            self.places[number] = self.written()
            if number < len(self.messages):
                yield self.messages[number]

    def borders(self):
        """Returns where the loop asks for messages, by their number, and ends. Empty if that does not say what the first
        messages alone become."""
        end = self.places.get(len(self.messages))
        if not self.is_one_by_one or end is None or end == min(self.places.values()):  # nothing was written meanwhile
            return {}
        return {number: place for number, place in self.places.items() if number > self.before}


class Watched(collections.abc.Sequence):
    """The messages of a watch from `first` on. Not a list, so that nothing goes by its methods."""

    def __init__(self, watch, first=0):
        self._watch, self._first = watch, first

    def __len__(self):
        self._watch.is_one_by_one = False
        return len(self._watch.messages) - self._first

    def __bool__(self):
        self._watch.look(self._first)
        return len(self._watch.messages) > self._first

    def __iter__(self):
        return self._watch.turns(self._first)

    def __getitem__(self, at):
        if isinstance(at, slice) and at.stop is None and at.step is None and (at.start or 0) >= 0:
            return Watched(self._watch, self._first + (at.start or 0))
        if isinstance(at, slice) or at < 0:
            self._watch.is_one_by_one = False
            return self._watch.messages[self._first :][at]
        self._watch.look(self._first + at)
        return self._watch.messages[self._first + at]

    def __eq__(self, other):
        self._watch.is_one_by_one = False
        return self._watch.messages[self._first :] == other

    def __repr__(self):
        self._watch.is_one_by_one = False
        return repr(self._watch.messages[self._first :])
