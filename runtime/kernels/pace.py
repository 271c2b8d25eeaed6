"""The measurement of one thread against several, call by call."""

from __future__ import annotations

import time

# seconds: of a call that threads could shorten, and of all calls before threads are tried
WORTH_THREADS, WORTH_COMPILING = 5e-4, 2e-2
PRICE_OF_TRIES = 50.0  # seconds of work for each second that tries of several threads lose
SOON, LATER = 8, 128  # calls on threads after which one thread is timed again: the first, the last


class Pace:
    """Finds out whether a kernel is quicker on one thread or on several, for arrays of one size.

    On one, until that has taken as long as the other's compiling may: as long as the first call,
    where that was compiled (``compiles``). Then on several as long as these take less time. Where
    they do not, they are tried again after so much work that the tries cost a fiftieth of it. Where
    they do, one thread is, more and more seldom: what either took when other programs ran says
    nothing of later.
    """

    def __init__(self, compiles=True):
        self.compiles, self.price = compiles, WORTH_COMPILING
        self.serial = self.threads = 0.0  # seconds, of late
        self.spent, self.calls = 0.0, 0
        self.wait, self.owed = 2, 0.0  # calls and seconds of work until the next try
        self.on_threads, self.stay, self.trust = False, SOON, SOON
        self.lost = 0.0  # seconds by which the last try was slower

    def run(self, serial, threads, args):
        """The kernel's result."""
        start = time.perf_counter()
        if self.on_threads:
            found = threads(*args)
            self._note_threads(time.perf_counter() - start)
        else:
            found = serial(*args)
            self._note_serial(time.perf_counter() - start)
        return found

    def _note_serial(self, seconds):
        self.calls += 1
        if self.calls == 1:
            if self.compiles:
                self.price = max(self.price, seconds)
            return  # it may have been compiled
        usual = min(seconds, 2.0 * self.serial)  # a pause of the machine is no work of the kernel
        self.serial = 0.8 * self.serial + 0.2 * usual if self.serial else seconds
        self.spent += seconds
        self.wait -= 1
        self.owed -= usual
        worth = self.serial > WORTH_THREADS and self.spent > self.price
        if self.wait <= 0 and self.owed <= 0.0 and worth:
            self.on_threads, self.threads = True, -1.0

    def _note_threads(self, seconds):
        if self.threads < 0.0:
            self.threads = 0.0  # it may have been compiled
            self.lost = min(seconds, 4.0 * self.serial) - self.serial
            return
        self.threads = 0.5 * (self.threads + seconds) if self.threads else seconds
        self.stay -= 1
        if self.threads >= 0.9 * self.serial:
            self.on_threads = False
            self.lost += self.threads - self.serial
            self.wait, self.owed = 16, PRICE_OF_TRIES * max(self.lost, 0.0)
            self.stay = self.trust = SOON
        elif self.stay <= 0:
            self.on_threads, self.serial, self.wait = False, 0.0, 2
            self.stay = self.trust = min(2 * self.trust, LATER)
        else:
            self.lost, self.owed = 0.0, 0.0
