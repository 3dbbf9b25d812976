/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measuring by how much the counters of two CPUs can differ: the two-way exchange.
 *
 * Two threads hand a line of memory to and fro, strictly turn by turn, each writing its
 * ordered counter value. Whoever receives a value v and then reads its own counter c
 * knows that c was read later than v, so (own counter - partner's counter) <= c - v,
 * whatever happened in between. Each side keeps the smallest such difference; the two
 * together are an interval for the skew which is as wide as the fastest round trip.
 * A negative one is a warp: time that was seen to go back.
 *
 * A partner that is late (a descheduled vCPU, an interrupt, an SMI) makes one difference
 * large, which the minimum ignores. It can not make it small. So nothing is filtered,
 * and interrupts stay on.
 *
 * What can't be seen is a skew smaller than the fastest hand-over, and no two threads
 * that work together can see it either, since their own hand-over takes as long.
 *
 * Pure code: the file that includes this one says how the counter is read, by defining
 * the macros below beforehand, so that the same source runs in the kernel, in tests with
 * simulated counters, and in user space. Used by core/workers.c.
 *
 *	FASTCLK_EXCHANGE_COUNTER(x)	ordered counter of the CPU that runs this, as u64
 *	FASTCLK_EXCHANGE_RELAX(x)	in the waiting loop; pausing there narrows the interval
 *					(364 to 286 cycles natively)
 *
 * where x is the struct fastclk_exchange.
 */
#ifndef _FASTCLK_EXCHANGE_H
#define _FASTCLK_EXCHANGE_H

#include "types.h"

/* What settles it: 64 are nearly as good and take 11 us, fewer are no measurement. */
#define FASTCLK_EXCHANGES	1000
#define FASTCLK_EXCHANGES_MIN	64

/* How often the waiting loop runs between two looks at the clock. */
#define FASTCLK_EXCHANGE_POLLS	64

/*
 * A wait ends after this many looks, even if the counter stands still. With 64 pauses
 * of 10 to 140 cycles a look, that is 20 to 200 ms.
 */
#define FASTCLK_EXCHANGE_LOOKS	(1U << 16)

/*
 * struct fastclk_exchange_line - what goes to and fro, alone on its cache line
 * @turn: hand-overs so far; its parity says whose turn it is
 * @value: the counter of whoever made the last one
 *
 * 128 bytes: x86 fetches lines in pairs, arm64 has lines of 128.
 */
struct fastclk_exchange_line {
	u64 turn;
	u64 value;
} __attribute__((aligned(128)));

/*
 * struct fastclk_exchange - one side of an exchange
 * @line: shared with the partner; turn 0 before either starts
 * @side: 0 makes the first move, 1 answers
 * @exchanges: how many round trips to make
 * @start_cycles: give up when the partner has not made its first move by then
 * @patience_cycles: give up when the partner has not moved for so long
 * @limit_cycles: end after so long, with what was received by then
 * @received: result, how many of the partner's values were seen
 * @bound_cycles: result, own counter minus partner's is at most this; S64_MAX if nothing
 *	was received
 * @begin: own counter when it began
 * @context: for FASTCLK_EXCHANGE_COUNTER()
 */
struct fastclk_exchange {
	struct fastclk_exchange_line *line;
	u32 side;
	u32 exchanges;
	u64 start_cycles;
	u64 patience_cycles;
	u64 limit_cycles;
	u32 received;
	s64 bound_cycles;
	u64 begin;
	void *context;
};

#ifdef FASTCLK_EXCHANGE_COUNTER

/* Wait until the partner has moved. Return: whether it did. */
static inline bool fastclk_exchange_wait(struct fastclk_exchange *x, u64 turn)
{
	u64 patience = x->received ? x->patience_cycles : x->start_cycles;
	u64 now, since = 0;
	u32 looks, polls;

	for (looks = 0; looks < FASTCLK_EXCHANGE_LOOKS; looks++) {
		for (polls = 0; polls < FASTCLK_EXCHANGE_POLLS; polls++) {
			/* Pairs with the release in fastclk_exchange_run(): @value is there. */
			if (smp_load_acquire(&x->line->turn) == turn)
				return true;
			FASTCLK_EXCHANGE_RELAX(x);
		}
		/* A hand-over rarely takes longer, so this read costs nothing. */
		now = FASTCLK_EXCHANGE_COUNTER(x);
		if (!looks)
			since = now;
		if (now - since > patience || now - x->begin > x->limit_cycles)
			return false;
	}
	return false;
}

/**
 * fastclk_exchange_run - one side of an exchange; the partner runs the other
 * @x: what to do, and the results
 *
 * Needs no rendezvous: a partner that comes too late finds that nobody answers, and
 * gives up as well. May be preempted and interrupted, but must stay on its CPU. Does not
 * sleep; takes @exchanges round trips, or until the partner has not moved for
 * @start_cycles or @patience_cycles, or @limit_cycles are over.
 */
static inline void fastclk_exchange_run(struct fastclk_exchange *x)
{
	u64 last = 2ULL * x->exchanges;
	u64 turn = x->side;
	u64 value, own;
	s64 difference;

	x->received = 0;
	x->bound_cycles = S64_MAX;
	x->begin = FASTCLK_EXCHANGE_COUNTER(x);

	for (;; turn += 2) {
		/*
		 * Side 0 moves on even turns, side 1 on odd ones. The first move follows
		 * nothing, so there is nothing to learn from it.
		 */
		if (turn && !fastclk_exchange_wait(x, turn))
			return;
		value = READ_ONCE(x->line->value);
		own = FASTCLK_EXCHANGE_COUNTER(x);

		if (turn) {
			difference = (s64)(own - value);
			if (difference < x->bound_cycles)
				x->bound_cycles = difference;
			x->received++;
		}
		if (turn == last)
			return;

		/* Pairs with the acquire in fastclk_exchange_wait(). */
		WRITE_ONCE(x->line->value, own);
		smp_store_release(&x->line->turn, turn + 1);
		if (turn + 1 == last)
			return;
	}
}

#endif /* FASTCLK_EXCHANGE_COUNTER */

#endif /* _FASTCLK_EXCHANGE_H */
