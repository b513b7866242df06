/* The inner loops of search, in C without the Python API. `plain.py` has the same functions in NumPy.

   The caller guarantees the array lengths. Slots in posting lists are always below `size`. Slots that
   a ranker returned are checked, because a custom ranker may be wrong: the result is then -1. */

#include <float.h>
#include <math.h>
#include <stdint.h>

#ifdef _WIN32
#define PUBLIC __declspec(dllexport)
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

#ifndef EDITION
#define EDITION 0 /* `hatch_build.py` passes the CRC-32 of this file */
#endif

/* `compiled.py` compares this with the CRC-32 of the loops.c beside it, to detect an old library. */
PUBLIC uint32_t edition(void)
{
    return EDITION;
}

/* A term: the slots of the tools that have it, ascending, and its weight in each; the factor for the
   weights, the idf, and the mean and variance of the term's score over the whole catalog.
   `postings.py` packs it: keep the layouts equal. */
typedef struct {
    const int32_t *slots;
    const float *weights;
    int64_t count;
    double worth, idf, mean, variance;
} PostingList;

static int are_below(const int32_t *slots, int32_t count, int32_t size)
{
    for (int32_t i = 0; i < count; i++)
        if (slots[i] < 0 || slots[i] >= size) return 0;
    return 1;
}

/* Move the values that are at least `least` to the front; return how many there are. The loop has no
   branch on the values: their order is random, so the processor would mispredict half of them. */
static int32_t move_to_front(float *values, int32_t count, float least)
{
    int32_t front = 0;
    for (int32_t i = 0; i < count; i++) {
        float value = values[i];
        values[i] = values[front];
        values[front] = value;
        front += value >= least;
    }
    return front;
}

/* The value at index `place` in descending order: quickselect with the median of three as pivot. */
static float nth_largest(float *values, int32_t count, int32_t place)
{
    for (;;) {
        float first = values[0], middle = values[count / 2], last = values[count - 1];
        float low = first < last ? first : last, high = first < last ? last : first;
        float pivot = middle < low ? low : middle > high ? high : middle;
        int32_t above = move_to_front(values, count, nextafterf(pivot, INFINITY));
        if (place < above) {
            count = above;
            continue;
        }
        values += above;
        count -= above;
        place -= above;
        int32_t equal = move_to_front(values, count, pivot);
        if (place < equal || !equal) return pivot; /* no equal value: NaN, which would loop forever */
        values += equal;
        count -= equal;
        place -= equal;
    }
}

#define BLOCK 32          /* scores compared at once, a length that compilers vectorise */
#define SAMPLE 6          /* postings read per wanted slot to estimate the score of the last one */
#define SPARSE 4          /* with fewer postings than size / SPARSE, only their slots are looked at */
#define RARE 32           /* a term with more postings than RARE per slot is searched, not scanned */
#define BITS 32           /* words of the bit filter, which tells 64 * BITS slots apart */
#define MIN_VARIANCE 1e-6 /* as in plain.py */

/* Whether any score of a block is at least `least`, without an early exit, so that it vectorises. */
static int any_reaches(const float *scores, float least)
{
    int is_reached = 0;
    for (int32_t i = 0; i < BLOCK; i++) is_reached |= scores[i] >= least;
    return is_reached;
}

/* Collect the allowed slots with at least this score, and their scores; return how many there are. */
static int32_t collect_reaching(const float *scores, const uint8_t *allowed, int32_t size, float least,
                                float *reached, int32_t *found)
{
    int32_t count = 0;
    for (int32_t start = 0; start < size; start += BLOCK) {
        int32_t end = start + BLOCK < size ? start + BLOCK : size;
        if (end - start == BLOCK && !any_reaches(scores + start, least)) continue;
        for (int32_t slot = start; slot < end; slot++) {
            /* Written always, kept only if it counts: no branch to mispredict. */
            reached[count] = scores[slot];
            found[count] = slot;
            count += (scores[slot] >= least) & allowed[slot];
        }
    }
    return count;
}

/* Sum the scores that terms, rarest first, give to `size` slots. Find the `depth` best allowed slots
   and all that tie with the last of them, in no order; return how many there are. Every posting adds
   a positive score. `scores` must be zeroed; `room` has space for one number per slot.

   The threshold is found in two steps. Slots of the rarest terms are likely among the best, so the
   score at `depth` of a small sample of them is a lower bound of the true threshold. Only the slots
   that reach it take part in the exact selection. */
PUBLIC int32_t score_slots(const PostingList *terms, int32_t term_count, const uint8_t *allowed,
                           int32_t size, int32_t depth, float *scores, float *room, int32_t *found)
{
    int32_t count = 0, kept = 0;
    int64_t sampled = 0, postings = 0;
    for (const PostingList *term = terms; term < terms + term_count; term++)
        postings += term->count;
    int is_sparse = SPARSE * postings < size;
    int64_t sample = is_sparse ? postings : SAMPLE * (int64_t)depth;
    for (const PostingList *term = terms; term < terms + term_count; term++) {
        for (int64_t i = 0; i < term->count && sampled < sample; i++, sampled++) {
            found[count] = term->slots[i];
            /* A score of 0 means that no term before this one had the slot: take it once. */
            count += (scores[term->slots[i]] == 0) & allowed[term->slots[i]];
        }
        float worth = (float)term->worth;
        for (int64_t i = 0; i < term->count; i++)
            scores[term->slots[i]] += term->weights[i] * worth;
    }
    for (int32_t i = 0; i < count; i++) room[i] = scores[found[i]];
    if (!is_sparse) {
        float least = count < depth ? FLT_MIN : nth_largest(room, count, depth - 1);
        count = collect_reaching(scores, allowed, size, least, room, found);
    }
    if (count <= depth) return count;
    float last = nth_largest(room, count, depth - 1);
    for (int32_t i = 0; i < count; i++)
        if (scores[found[i]] >= last) found[kept++] = found[i];
    return kept;
}

/* The score that a term gives to one slot, found by a binary search without branches. */
static float gain(const PostingList *term, int32_t slot)
{
    const int32_t *at = term->slots;
    for (int64_t left = term->count, half; left > 1; left -= half) {
        half = left / 2;
        at = at[half - 1] < slot ? at + half : at;
    }
    return *at == slot ? term->weights[at - term->slots] * (float)term->worth : 0;
}

/* The sum of idf over the terms that a tool has. */
PUBLIC double idf_mass(const PostingList *terms, int32_t term_count, int32_t slot)
{
    double sum = 0;
    for (const PostingList *term = terms; term < terms + term_count; term++)
        if (gain(term, slot) > 0) sum += term->idf;
    return sum;
}

/* The index of a slot in `slots`, whose ascending order is `ordered`; -1 if it is not there. */
static int32_t find_slot(const int32_t *slots, const int32_t *ordered, int32_t count, int32_t slot)
{
    int32_t first = 0;
    for (int32_t left = count, half; left > 1; left -= half) {
        half = left / 2;
        first = slots[ordered[first + half - 1]] < slot ? first + half : first;
    }
    return slots[ordered[first]] == slot ? ordered[first] : -1;
}

/* Fill `table` with the score that each term (row) gives to each slot (column).

   Scanning a short posting list is faster than a binary search in it for every slot. A bit filter,
   a small Bloom filter with one hash, discards most postings of other slots. */
static void gain_table(const PostingList *terms, int32_t term_count, const int32_t *slots,
                       int32_t count, int32_t *ordered, float *table)
{
    uint64_t bits[BITS] = {0};
    /* Insertion sort: there are only a few dozen slots. */
    for (int32_t i = 0, place; i < count; i++) {
        for (place = i; place > 0 && slots[ordered[place - 1]] > slots[i]; place--)
            ordered[place] = ordered[place - 1];
        ordered[place] = i;
        bits[slots[i] / 64 % BITS] |= (uint64_t)1 << slots[i] % 64;
    }
    for (const PostingList *term = terms; term < terms + term_count; term++, table += count) {
        if (term->count > RARE * count) {
            for (int32_t i = 0; i < count; i++) table[i] = gain(term, slots[i]);
            continue;
        }
        for (int64_t i = 0; i < term->count; i++) {
            int32_t slot = term->slots[i];
            if (!(bits[slot / 64 % BITS] >> slot % 64 & 1)) continue;
            int32_t place = find_slot(slots, ordered, count, slot);
            if (place >= 0) table[place] = term->weights[i] * (float)term->worth;
        }
    }
}

/* The z-scores of some slots for the terms of each clause alone. `membership` (which terms a clause
   has) and `fits` (the result) have a row per clause. `table` and `fits` must be zeroed; `ordered` has
   space for all slots. Returns -1 if a slot does not exist. */
PUBLIC int32_t clause_scores(const PostingList *terms, int32_t term_count, const uint8_t *membership,
                             int32_t clauses, const int32_t *slots, int32_t count, int32_t size,
                             int32_t *ordered, float *table, float *fits)
{
    if (!are_below(slots, count, size)) return -1;
    gain_table(terms, term_count, slots, count, ordered, table);
    for (int32_t c = 0; c < clauses; c++, membership += term_count, fits += count) {
        double mean = 0, variance = 0;
        for (int32_t t = 0; t < term_count; t++) {
            if (!membership[t]) continue;
            /* Variances add up as if terms occurred independently. */
            mean += terms[t].mean;
            variance += terms[t].variance;
            for (int32_t i = 0; i < count; i++) fits[i] += table[(int64_t)t * count + i];
        }
        double deviation = sqrt(variance > MIN_VARIANCE ? variance : MIN_VARIANCE);
        for (int32_t i = 0; i < count; i++) fits[i] = (float)((fits[i] - mean) / deviation);
    }
    return 0;
}

/* Put the best `wanted` slots first, in descending order, followed by all that tie with the last.
   Returns twice their number, plus one if any two are tied, or -1 if a slot does not exist.

   With `servers` > 0 a score first gains `share` of the best score of its server; `best` has space for
   one number per server. Tools of server `nameless` gain nothing. Scores are rounded to four digits,
   as users see them: what looks equal is a tie, which the caller breaks by name. */
PUBLIC int32_t order_slots(int32_t *slots, float *scores, int32_t count, int32_t size, int32_t wanted,
                           const int32_t *server, float *best, int32_t servers, int32_t nameless,
                           float share)
{
    if (!are_below(slots, count, size)) return -1;
    if (servers > 0) {
        for (int32_t g = 0; g < servers; g++) best[g] = -INFINITY;
        for (int32_t i = 0; i < count; i++) {
            float *top = best + server[slots[i]];
            if (scores[i] > *top) *top = scores[i];
        }
        if (nameless >= 0) best[nameless] = 0;
        for (int32_t i = 0; i < count; i++) scores[i] += share * best[server[slots[i]]];
    }
    /* Insertion into a short sorted prefix of the same arrays: `kept` never overtakes `i`. */
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        float score = rintf(scores[i] * 1e4f) / 1e4f;
        int32_t slot = slots[i], place = kept;
        if (kept >= wanted && score < scores[wanted - 1]) continue;
        while (place > 0 && scores[place - 1] < score) {
            scores[place] = scores[place - 1];
            slots[place] = slots[place - 1];
            place--;
        }
        scores[place] = score;
        slots[place] = slot;
        kept++;
        while (kept > wanted && scores[kept - 1] < scores[wanted - 1]) kept--;
    }
    int is_tied = 0;
    for (int32_t i = 1; i < kept; i++) is_tied |= scores[i] == scores[i - 1];
    return 2 * kept + is_tied;
}

/* The best fit of a slot to any clause, less the penalties in `served`; `best` gets the clause. */
static double max_fit(const float *fits, int32_t clauses, int32_t count, int32_t slot,
                      const double *served, int32_t *best)
{
    double highest = -INFINITY;
    for (int32_t c = 0; c < clauses; c++) {
        double fit = (double)fits[(int64_t)c * count + slot] - (served ? served[c] : 0);
        if (fit > highest) {
            highest = fit;
            *best = c;
        }
    }
    return highest;
}

/* Diversify greedily: write to `order` the slots, given best first, after the first `wanted` places
   have been filled one by one. A chosen slot adds `penalty` to the clause (row of `fits`) that it fits
   best; every other slot then loses `share` of what the penalties take from its own best fit.
   `served` must be zeroed. */
PUBLIC void diverse_order(const float *scores, const float *fits, int32_t clauses, int32_t count,
                          int32_t wanted, double share, double penalty, double *served,
                          int32_t *order)
{
    int32_t clause = 0;
    for (int32_t i = 0; i < count; i++) order[i] = i;
    for (int32_t place = 0; place + 1 < wanted; place++) {
        max_fit(fits, clauses, count, order[place], served, &clause);
        served[clause] += penalty;
        double highest = -INFINITY;
        int32_t next = place + 1;
        /* Scores descend and a slot can only lose, so the search stops at the first score that is
           not above the best value so far. */
        for (int32_t i = place + 1; i < count && scores[order[i]] > highest; i++) {
            double lost = max_fit(fits, clauses, count, order[i], 0, &clause)
                        - max_fit(fits, clauses, count, order[i], served, &clause);
            double worth = scores[order[i]] - share * lost;
            if (worth > highest) {
                highest = worth;
                next = i;
            }
        }
        int32_t chosen = order[next];
        for (int32_t i = next; i > place + 1; i--) order[i] = order[i - 1];
        order[place + 1] = chosen;
    }
}

/* A 64-bit signature of a word: which letters it has (in 32 buckets), and which it has more than once.
   An edit changes at most two bits, so half the differing bits are a lower bound of edit distance. */
PUBLIC uint64_t signature(const uint32_t *word, int32_t length)
{
    uint64_t once = 0, twice = 0;
    for (int32_t i = 0; i < length; i++) {
        uint64_t bit = (uint64_t)1 << word[i] % 32;
        twice |= once & bit;
        once |= bit;
    }
    return twice << 32 | once;
}

/* Find the signatures that differ from that of a word in at most `max_bits` bits; return how many. */
PUBLIC int32_t find_similar(const uint64_t *signatures, int32_t count, const uint32_t *word,
                            int32_t length, int32_t max_bits, int32_t *found)
{
    uint64_t wanted = signature(word, length);
    int32_t similar = 0;
    for (int32_t i = 0; i < count; i++) {
        /* Population count in portable C: a compiler builtin may need a newer processor. */
        uint64_t apart = signatures[i] ^ wanted;
        apart -= apart >> 1 & 0x5555555555555555;
        apart = (apart & 0x3333333333333333) + (apart >> 2 & 0x3333333333333333);
        apart = (apart + (apart >> 4)) & 0x0f0f0f0f0f0f0f0f;
        found[similar] = i;
        similar += (int32_t)(apart * 0x0101010101010101 >> 56) <= max_bits;
    }
    return similar;
}
