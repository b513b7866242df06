/* The inner loops of search, without Python: whoever calls sees to it that every array is as long as
   is said. Slots of words are below the size; those that a caller offers are looked at, and -1 is the
   answer if one is not. `plain.py` says the same in NumPy. */

#include <float.h>
#include <math.h>
#include <stdint.h>

#ifdef _WIN32
#define PUBLIC __declspec(dllexport)
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

#ifndef EDITION
#define EDITION 0 /* `hatch_build.py` says which */
#endif

/* By which `compiled.py` sees whether this was compiled from the text that it has beside it. */
PUBLIC uint32_t edition(void)
{
    return EDITION;
}

/* The tools that have a word, in order, and what it weighs in each of them; what that is multiplied
   by, how rare the word is, and the mean and variance of its gain over the whole catalog. `word.py`
   packs them. */
typedef struct {
    const int32_t *slots;
    const float *weights;
    int64_t count;
    double worth, idf, mean, variance;
} Word;

static int are_below(const int32_t *slots, int32_t count, int32_t size)
{
    for (int32_t i = 0; i < count; i++)
        if (slots[i] < 0 || slots[i] >= size) return 0;
    return 1;
}

/* Bring what is that high to the front; how many those are. Nothing branches on the values, which
   come in no order that could be foreseen. */
static int32_t brought(float *values, int32_t count, float least)
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

/* The value that comes in a certain place, from 0 on, if the largest comes first. */
static float placed(float *values, int32_t count, int32_t place)
{
    for (;;) {
        float first = values[0], middle = values[count / 2], last = values[count - 1];
        float low = first < last ? first : last, high = first < last ? last : first;
        float pivot = middle < low ? low : middle > high ? high : middle;
        int32_t above = brought(values, count, nextafterf(pivot, INFINITY));
        if (place < above) {
            count = above;
            continue;
        }
        values += above;
        count -= above;
        place -= above;
        int32_t equal = brought(values, count, pivot);
        if (place < equal || !equal) return pivot; /* what is no number equals nothing */
        values += equal;
        count -= equal;
        place -= equal;
    }
}

#define BLOCK 32   /* so many scores are compared at once */
#define SOME 6     /* so many tools for each one wanted are looked at for a first idea */
#define SPARSE 4   /* so many slots for each one that words have are not all looked at */
#define RARE 32    /* so many tools for each one asked for make a word no longer rare */
#define BITS 32    /* so many times 64 slots are told apart by bits */
#define SMALL 1e-6 /* the least variance, as in word.py */

/* Whether any of a block's scores is that high: told of all at once. */
static int any_reaches(const float *scores, float least)
{
    int is_reached = 0;
    for (int32_t i = 0; i < BLOCK; i++) is_reached |= scores[i] >= least;
    return is_reached;
}

/* Find the allowed slots whose score is that high, and their scores; how many those are. */
static int32_t reaching(const float *scores, const uint8_t *allowed, int32_t size, float least,
                        float *reached, int32_t *found)
{
    int32_t count = 0;
    for (int32_t start = 0; start < size; start += BLOCK) {
        int32_t end = start + BLOCK < size ? start + BLOCK : size;
        if (end - start == BLOCK && !any_reaches(scores + start, least)) continue;
        for (int32_t slot = start; slot < end; slot++) {
            reached[count] = scores[slot];
            found[count] = slot;
            count += (scores[slot] >= least) & allowed[slot];
        }
    }
    return count;
}

/* Sum what words, the rarest first, give each of `size` slots, which is always something, and find the
   allowed ones among the `depth` best and whatever is as good as the last of them, in no order; how
   many those are. `scores` comes zeroed; there is `room` for a number a slot. */
PUBLIC int32_t gather(const Word *words, int32_t many, const uint8_t *allowed, int32_t size,
                      int32_t depth, float *scores, float *room, int32_t *found)
{
    int32_t count = 0, kept = 0;
    int64_t looked_at = 0, had = 0;
    for (const Word *word = words; word < words + many; word++) had += word->count;
    int is_sparse = SPARSE * had < size;
    int64_t some = is_sparse ? had : SOME * (int64_t)depth;
    for (const Word *word = words; word < words + many; word++) {
        /* all tools, or some that are likely among the best, since they have the rarest words */
        for (int64_t i = 0; i < word->count && looked_at < some; i++, looked_at++) {
            found[count] = word->slots[i];
            count += (scores[word->slots[i]] == 0) & allowed[word->slots[i]];
        }
        float worth = (float)word->worth;
        for (int64_t i = 0; i < word->count; i++)
            scores[word->slots[i]] += word->weights[i] * worth;
    }
    for (int32_t i = 0; i < count; i++) room[i] = scores[found[i]];
    if (!is_sparse) { /* as good as those are as many as are wanted, and perhaps more */
        float least = count < depth ? FLT_MIN : placed(room, count, depth - 1);
        count = reaching(scores, allowed, size, least, room, found);
    }
    if (count <= depth) return count;
    float last = placed(room, count, depth - 1);
    for (int32_t i = 0; i < count; i++)
        if (scores[found[i]] >= last) found[kept++] = found[i];
    return kept;
}

/* What a word gives a tool, looked up. */
static float gain(const Word *word, int32_t slot)
{
    const int32_t *at = word->slots;
    for (int64_t left = word->count, half; left > 1; left -= half) {
        half = left / 2;
        at = at[half - 1] < slot ? at + half : at;
    }
    return *at == slot ? word->weights[at - word->slots] * (float)word->worth : 0;
}

/* How much of some words, by rarity, a tool has. */
PUBLIC double held(const Word *words, int32_t many, int32_t slot)
{
    double sum = 0;
    for (const Word *word = words; word < words + many; word++)
        if (gain(word, slot) > 0) sum += word->idf;
    return sum;
}

/* Which of some slots, `ordered` by number, is this one; -1 if none is. */
static int32_t which(const int32_t *slots, const int32_t *ordered, int32_t count, int32_t slot)
{
    int32_t first = 0;
    for (int32_t left = count, half; left > 1; left -= half) {
        half = left / 2;
        first = slots[ordered[first + half - 1]] < slot ? first + half : first;
    }
    return slots[ordered[first]] == slot ? ordered[first] : -1;
}

/* What each word gives each of some slots: a row a word. Reading a rare word through takes less time
   than looking up each slot in it; most of its slots are seen to be others by a few of their bits. */
static void gains(const Word *words, int32_t many, const int32_t *slots, int32_t count,
                  int32_t *ordered, float *table)
{
    uint64_t bits[BITS] = {0};
    for (int32_t i = 0, place; i < count; i++) {
        for (place = i; place > 0 && slots[ordered[place - 1]] > slots[i]; place--)
            ordered[place] = ordered[place - 1];
        ordered[place] = i;
        bits[slots[i] / 64 % BITS] |= (uint64_t)1 << slots[i] % 64;
    }
    for (const Word *word = words; word < words + many; word++, table += count) {
        if (word->count > RARE * count) {
            for (int32_t i = 0; i < count; i++) table[i] = gain(word, slots[i]);
            continue;
        }
        for (int64_t i = 0; i < word->count; i++) {
            int32_t slot = word->slots[i];
            if (!(bits[slot / 64 % BITS] >> slot % 64 & 1)) continue;
            int32_t place = which(slots, ordered, count, slot);
            if (place >= 0) table[place] = word->weights[i] * (float)word->worth;
        }
    }
}

/* How the words of each clause alone see some slots, in standard deviations: a row a clause in `said`
   and `fits`. `table` and `fits` come zeroed; `ordered` has room for all slots. */
PUBLIC int32_t parted(const Word *words, int32_t many, const uint8_t *said, int32_t clauses,
                      const int32_t *slots, int32_t count, int32_t size, int32_t *ordered,
                      float *table, float *fits)
{
    if (!are_below(slots, count, size)) return -1;
    gains(words, many, slots, count, ordered, table);
    for (int32_t c = 0; c < clauses; c++, said += many, fits += count) {
        double mean = 0, variance = 0;
        for (int32_t w = 0; w < many; w++) {
            if (!said[w]) continue;
            mean += words[w].mean;
            variance += words[w].variance;
            for (int32_t i = 0; i < count; i++) fits[i] += table[(int64_t)w * count + i];
        }
        double deviation = sqrt(variance > SMALL ? variance : SMALL);
        for (int32_t i = 0; i < count; i++) fits[i] = (float)((fits[i] - mean) / deviation);
    }
    return 0;
}

/* Put the best `seen` of some of `size` slots first, and behind them whatever is as good as the last;
   how many those are, twice, and one more if some are equally good. Scores gain by the best one of
   their server and are rounded as they are shown. `best` has a place a server, `nameless` is the
   number of none. */
PUBLIC int32_t ordered(int32_t *slots, float *scores, int32_t count, int32_t size, int32_t seen,
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
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        float score = rintf(scores[i] * 1e4f) / 1e4f;
        int32_t slot = slots[i], place = kept;
        if (kept >= seen && score < scores[seen - 1]) continue;
        while (place > 0 && scores[place - 1] < score) {
            scores[place] = scores[place - 1];
            slots[place] = slots[place - 1];
            place--;
        }
        scores[place] = score;
        slots[place] = slot;
        kept++;
        while (kept > seen && scores[kept - 1] < scores[seen - 1]) kept--;
    }
    int is_tied = 0;
    for (int32_t i = 1; i < kept; i++) is_tied |= scores[i] == scores[i - 1];
    return 2 * kept + is_tied;
}

/* The most that a slot fits one of several clauses, less what has served each; which one. */
static double fittest(const float *fits, int32_t clauses, int32_t count, int32_t slot,
                      const double *served, int32_t *which)
{
    double most = -INFINITY;
    for (int32_t c = 0; c < clauses; c++) {
        double fit = (double)fits[(int64_t)c * count + slot] - (served ? served[c] : 0);
        if (fit > most) {
            most = fit;
            *which = c;
        }
    }
    return most;
}

/* The order in which slots, best first, come once `wanted` places are given by how they fit each
   clause (a row of `fits`): one that serves a clause makes all that mainly serve it fall back.
   `served` comes zeroed. */
PUBLIC void turns(const float *scores, const float *fits, int32_t clauses, int32_t count,
                  int32_t wanted, double share, double serves, double *served, int32_t *turn)
{
    int32_t clause = 0;
    for (int32_t i = 0; i < count; i++) turn[i] = i;
    for (int32_t place = 0; place + 1 < wanted; place++) {
        fittest(fits, clauses, count, turn[place], served, &clause);
        served[clause] += serves;
        double highest = -INFINITY;
        int32_t next = place + 1;
        for (int32_t i = place + 1; i < count && scores[turn[i]] > highest; i++) {
            double lost = fittest(fits, clauses, count, turn[i], 0, &clause)
                        - fittest(fits, clauses, count, turn[i], served, &clause);
            double worth = scores[turn[i]] - share * lost;
            if (worth > highest) {
                highest = worth;
                next = i;
            }
        }
        int32_t chosen = turn[next];
        for (int32_t i = next; i > place + 1; i--) turn[i] = turn[i - 1];
        turn[place + 1] = chosen;
    }
}

/* The letters of a word as bits, and again those that it has more than once. */
PUBLIC uint64_t letters(const uint32_t *word, int32_t length)
{
    uint64_t once = 0, again = 0;
    for (int32_t i = 0; i < length; i++) {
        uint64_t bit = (uint64_t)1 << word[i] % 32;
        again |= once & bit;
        once |= bit;
    }
    return again << 32 | once;
}

/* Find the words, given by their letters, that differ from one by no more than that; how many those
   are. */
PUBLIC int32_t alike(const uint64_t *words, int32_t count, const uint32_t *word, int32_t length,
                     int32_t most, int32_t *found)
{
    uint64_t wanted = letters(word, length);
    int32_t many = 0;
    for (int32_t i = 0; i < count; i++) {
        uint64_t apart = words[i] ^ wanted; /* whose ones are counted in pairs, fours and bytes */
        apart -= apart >> 1 & 0x5555555555555555;
        apart = (apart & 0x3333333333333333) + (apart >> 2 & 0x3333333333333333);
        apart = (apart + (apart >> 4)) & 0x0f0f0f0f0f0f0f0f;
        found[many] = i;
        many += (int32_t)(apart * 0x0101010101010101 >> 56) <= most;
    }
    return many;
}
