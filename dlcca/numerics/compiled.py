"""Loops compiled by numba, which the other modules import when they have much to do.

Importing this module imports numba, which takes longer than a small fit. Each function is compiled at its first call
and kept in numba's cache. They take and fill plain arrays; the functions that users of this package call are in `topk`,
`neighbors`, `distances` and `kernels`.
"""

import numba
import numpy as np

#: Steps by which the bound of a selection is found: to a part in 32 of what it is.
HALVINGS = 5
#: Entries of a stack, among which one is the least.
HEIGHT = 8
#: So many times the entries of a selection are ranked by comparing each with each; more are sorted.
MOST_RANKED = 4
#: Landmarks that are compared at a time before any of them is examined alone.
STRETCH = 64
#: Samples of a landmark that are put side by side at a time; they stay in the cache.
SIDE_BY_SIDE = 512


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def select_tile(b, products, sizes, lengths, scale, links, start, distances, rows):  # type: ignore[no-untyped-def]
    """One tile: update every sample's links and every landmark's nearest samples.

    The loops that make distances and bounds have no branches and write where they do not read, so that the compiler
    turns them into vector instructions; the loops that select seldom find anything to do.
    """
    K, _tile, m = products.shape
    s, k = links.shape[2], distances.shape[1]
    dtype = products.dtype.type
    stacks = -(-m // HEIGHT)
    D = np.full(HEIGHT * stacks, dtype(np.inf))
    least = np.empty(stacks, dtype=products.dtype)
    # One more than there are entries: the last one is written before it is known whether it counts.
    which, keys = np.empty(stacks + 1, dtype=np.int32), np.empty(len(D) + 1, dtype=np.int64)
    near, at = np.empty(len(D) + 1, dtype=products.dtype), np.empty(len(D) + 1, dtype=np.int32)
    bounds = np.ones(K, dtype=products.dtype)
    joint = np.zeros((2, m), dtype=products.dtype)
    # The bound of each landmark side by side: in `distances` they lie k entries apart.
    worst = np.empty(m, dtype=products.dtype)
    for i in range(m):
        worst[i] = distances[i, k - 1] if k > 0 else -np.inf
    for j in range(b):
        joint[0] = dtype(0)
        for v in range(K):
            _complete(products[v, j], lengths[v], sizes[v, j], D)
            if s > 0:
                bounds[v] = _smallest(D, m, bounds[v], least, which, near, at, keys, links[v, start + j])
            if k > 0:
                _larger(joint[v % 2], D, scale[v], joint[(v + 1) % 2])
        if k > 0:
            _keep(joint[K % 2], worst, distances, rows, start + j)


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _complete(product, lengths, size, D):  # type: ignore[no-untyped-def]
    """D = |x|² - 2 x·p + |p|², of which the product is known."""
    for i in range(len(product)):
        D[i] = max(product[i] + lengths[i] + size, product.dtype.type(0))


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _larger(A, B, factor, out):  # type: ignore[no-untyped-def]
    for i in range(len(A)):
        out[i] = max(A[i], B[i] * factor)


@numba.njit(cache=True, nogil=True)
def _smallest(D, m, guess, least, which, near, at, keys, chosen):  # type: ignore[no-untyped-def]
    """The places of the smallest of m entries of D, smallest first and equal ones in their order.

    D is taken as stacks of entries that lie len(least) apart. The s-th smallest of the stacks' least entries bounds the
    s-th smallest entry from above, and closely: few entries are left to be sorted, and most stacks need no look. What
    is left is written side by side without a branch, and each entry goes to the place that is its rank. The bound is
    returned, as a guess for the next sample; the other arrays are for work.
    """
    stacks, s = len(least), len(chosen)
    bound = D.dtype.type(np.inf)
    if stacks >= s:
        _tops(D.reshape(HEIGHT, stacks), least)
        bound = _bound(least, s, guess)
    else:
        least[:] = -np.inf
    few = count = 0
    for g in range(stacks):
        which[few] = g
        few += least[g] <= bound
    for t in range(few):
        for i in range(which[t], m, stacks):
            near[count], at[count] = D[i], i
            count += D[i] <= bound
    if count > MOST_RANKED * s or near.itemsize != 4:  # many are equal
        _sort(near, at, count, chosen)
    else:  # numbers that are not negative have the order of their bits
        bits = near.view(np.int32)
        for a in range(count):
            keys[a] = (np.int64(bits[a]) << 32) | np.int64(at[a])
        for a in range(count):
            rank = 0
            for e in range(count):
                rank += keys[e] < keys[a]
            if rank < s:
                chosen[rank] = at[a]
    return bound if bound < np.inf else guess


@numba.njit(cache=True, nogil=True)
def _sort(near, at, count, chosen):  # type: ignore[no-untyped-def]
    """The smallest of so many entries by insertion; what is beyond them is overwritten."""
    s, found = len(chosen), 0
    for e in range(count):
        d, i = near[e], at[e]
        if found < s:
            found += 1
        elif d > near[s - 1] or (d == near[s - 1] and i > chosen[s - 1]):
            continue
        _place(near, chosen, found - 1, d, i)


@numba.njit(cache=True, nogil=True)
def _tops(E, least):  # type: ignore[no-untyped-def]
    """The least entry of every stack; written out, because a loop over its height would not become vector code."""
    for g in range(len(least)):
        a, b = min(E[0, g], E[1, g]), min(E[2, g], E[3, g])
        c, d = min(E[4, g], E[5, g]), min(E[6, g], E[7, g])
        least[g] = min(min(a, b), min(c, d))


@numba.njit(cache=True, nogil=True)
def _bound(values, s, guess):  # type: ignore[no-untyped-def]
    """A number that at least s of the values do not exceed, and not many more, by doubling and halving a guess.

    Counting needs no branch. The values are not negative.
    """
    low, high, half = values.dtype.type(0), guess, values.dtype.type(0.5)
    while _count(values, high) < s:
        if high == np.inf:
            return high
        low, high = high, (high + high if high > 0 else values.max())
    for _ in range(HALVINGS):
        middle = low + (high - low) * half
        if _count(values, middle) >= s:
            high = middle
        else:
            low = middle
    return high


@numba.njit(cache=True, nogil=True)
def _count(values, bound):  # type: ignore[no-untyped-def]
    count = 0
    for g in range(len(values)):
        count += values[g] <= bound
    return count


@numba.njit(cache=True, nogil=True)
def _keep(joint, worst, distances, rows, row):  # type: ignore[no-untyped-def]
    """Take a sample into the neighborhoods of the landmarks that it is nearer to than their farthest neighbour."""
    m, k = distances.shape
    for first in range(0, m, STRETCH):
        here, bounds = joint[first : first + STRETCH], worst[first : first + STRETCH]
        nearer = 0
        for i in range(len(here)):
            nearer += here[i] < bounds[i]
        if nearer == 0:
            continue
        for i in range(first, first + len(here)):
            if joint[i] < worst[i]:
                _place(distances[i], rows[i], k - 1, joint[i], row)
                worst[i] = distances[i, k - 1]


@numba.njit(cache=True, nogil=True)
def joint_distance(x, p, edges, scale):  # type: ignore[no-untyped-def]
    """The largest of the views' squared distances, each in its unit."""
    largest = 0.0
    for v in range(len(scale)):
        total = 0.0
        for c in range(edges[v], edges[v + 1]):
            total += (np.float64(x[c]) - np.float64(p[c])) ** 2
        largest = max(largest, total * scale[v])
    return largest


@numba.njit(cache=True, nogil=True)
def insert(distances, rows, d, row):  # type: ignore[no-untyped-def]
    """Put a row where it belongs among the nearest, if it does: by distance, and then by number."""
    last = len(distances) - 1
    if d < distances[last] or (d == distances[last] and row <= rows[last]):
        _place(distances, rows, last, d, row)


@numba.njit(cache=True, nogil=True)
def _place(distances, rows, at, d, row):  # type: ignore[no-untyped-def]
    """Put a row where it belongs among those before ``at``, which is free."""
    while at > 0 and (distances[at - 1] > d or (distances[at - 1] == d and rows[at - 1] > row)):
        distances[at] = distances[at - 1]
        rows[at] = rows[at - 1]
        at -= 1
    distances[at] = d
    rows[at] = row


@numba.njit(cache=True, nogil=True)
def rank_candidates(P, X, edges, scale, candidates, distances, rows, first_row):  # type: ignore[no-untyped-def]
    for i in range(len(P)):
        for c in candidates[i]:
            if c >= 0 and not (rows[i] == first_row + c).any():
                insert(distances[i], rows[i], joint_distance(P[i], X[c], edges, scale), first_row + c)


@numba.njit(cache=True, nogil=True)
def merge_nearest(distances, rows, more_distances, more_rows):  # type: ignore[no-untyped-def]
    k = distances.shape[1]
    for i in range(len(distances)):
        for c in range(more_distances.shape[1]):
            if more_rows[i, c] < 0 or more_distances[i, c] > distances[i, k - 1]:
                break  # they come nearest first
            insert(distances[i], rows[i], more_distances[i, c], more_rows[i, c])


@numba.njit(cache=True, nogil=True)
def divide_boxes(X, width, levels):  # type: ignore[no-untyped-def]
    """The order of the samples, and every box: its stretch of that order, its bounds, its lowest number."""
    n, d = X.shape
    boxes = 2 ** (levels + 1) - 1
    order = np.arange(n)
    stretches = np.zeros((boxes, 2), dtype=np.int64)
    stretches[0, 1] = n
    low, high = np.empty((boxes, d)), np.empty((boxes, d))
    first = np.empty(boxes, dtype=np.int64)
    for box in range(boxes):
        a, b = stretches[box]
        low[box], high[box], first[box] = np.inf, -np.inf, n
        for j in order[a:b]:
            first[box] = min(first[box], j)
            for c in range(d):
                low[box, c] = min(low[box, c], X[j, c])
                high[box, c] = max(high[box, c], X[j, c])
        if box >= boxes // 2:
            continue
        middle = (a + b) // 2
        if a < middle:
            widest = np.argmax((high[box] - low[box]) * width)
            some = order[a:b].copy()
            order[a:b] = some[np.argpartition(X[some, widest], middle - a)]
        stretches[2 * box + 1] = a, middle
        stretches[2 * box + 2] = middle, b
    return order, stretches, low, high, first


@numba.njit(cache=True, nogil=True)
def _box_bound(p, low, high, edges, scale):  # type: ignore[no-untyped-def]
    """No sample of a box is nearer than this; to the last digit, because it is rounded as the distances are."""
    largest = 0.0
    for v in range(len(scale)):
        total = 0.0
        for c in range(edges[v], edges[v + 1]):
            gap = max(low[c] - p[c], p[c] - high[c], 0.0)
            total += gap**2
        largest = max(largest, total * scale[v])
    return largest


@numba.njit(cache=True, nogil=True)
def search_boxes(P, X, rows, edges, scale, stretches, low, high, first, distances, found):  # type: ignore[no-untyped-def]
    k, inner = distances.shape[1], len(stretches) // 2
    waiting, bounds = np.empty(64, dtype=np.int64), np.empty(64)
    for i in range(len(P)):
        p, D, at = P[i], distances[i], found[i]
        waiting[0], bounds[0], count = 0, 0.0, 1
        while count > 0:
            count -= 1
            box = waiting[count]
            if bounds[count] > D[k - 1] or (bounds[count] == D[k - 1] and first[box] > at[k - 1] >= 0):
                continue
            if box >= inner:
                for j in range(stretches[box, 0], stretches[box, 1]):
                    d = joint_distance(X[j], p, edges, scale)
                    if d <= D[k - 1]:
                        insert(D, at, d, rows[j])
                continue
            near, far = 2 * box + 1, 2 * box + 2
            near_bound = _box_bound(p, low[near], high[near], edges, scale)
            far_bound = _box_bound(p, low[far], high[far], edges, scale)
            if far_bound < near_bound:
                near, far, near_bound, far_bound = far, near, far_bound, near_bound
            waiting[count], bounds[count] = far, far_bound
            waiting[count + 1], bounds[count + 1] = near, near_bound  # the next one
            count += 2


@numba.njit(cache=True, nogil=True)
def order_by_column(links, m):  # type: ignore[no-untyped-def]
    """Where the entries of each of m columns are: places in the ravelled links, and bounds (m + 1) of each one's."""
    bounds = np.zeros(m + 1, dtype=np.int64)
    flat = links.reshape(-1)
    for i in flat:
        bounds[i + 1] += 1
    for i in range(m):
        bounds[i + 1] += bounds[i]
    places = np.empty(len(flat), dtype=np.int64)
    filled = bounds[:-1].copy()
    for place in range(len(flat)):
        i = flat[place]
        places[filled[i]] = place
        filled[i] += 1
    return places, bounds


@numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc"})
def linked_distances(X, X_L, F, places, bounds, s, D):  # type: ignore[no-untyped-def]
    """Landmark by landmark, so that its factors are read once: its samples side by side, and one product for them."""
    m, d, r = F.shape
    steps = np.empty((SIDE_BY_SIDE, d), dtype=X.dtype)
    projected = np.empty((SIDE_BY_SIDE, r), dtype=X.dtype)
    for i in range(m):
        for first in range(bounds[i], bounds[i + 1], SIDE_BY_SIDE):
            count = min(SIDE_BY_SIDE, bounds[i + 1] - first)
            for j in range(count):
                x, step = X[places[first + j] // s], steps[j]
                for c in range(d):
                    step[c] = x[c] - X_L[i, c]
            np.dot(steps[:count], F[i], projected[:count])
            for j in range(count):
                total = X.dtype.type(0)
                for a in range(r):
                    total += projected[j, a] * projected[j, a]
                D[places[first + j]] = total


@numba.njit(cache=True, nogil=True)
def add_gram(G, starts, holders, entries, links_b, B):  # type: ignore[no-untyped-def]
    """One row of G after the other, which stays in the cache, from all rows that have an entry in that column of A."""
    for i in range(len(G)):
        row = G[i]
        for e in range(starts[i], starts[i + 1]):
            j, a = holders[e], entries[e]
            for q in range(links_b.shape[1]):
                row[links_b[j, q]] += a * B[j, q]


@numba.njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def powers_times(data, columns, starts, B, VT, roots, E):  # type: ignore[no-untyped-def]
    """E = (W B)^(1/2^roots) V, sample by sample, whose products stay in the cache; W is data, columns and starts."""
    f = np.empty(B.shape[1], dtype=B.dtype)
    for j in range(len(E)):
        f[:] = 0
        e, stop = starts[j], starts[j + 1]
        while e + 4 <= stop:  # four rows at a time: the sums are read and written a quarter as often
            w0, w1, w2, w3 = data[e], data[e + 1], data[e + 2], data[e + 3]
            b0, b1, b2, b3 = B[columns[e]], B[columns[e + 1]], B[columns[e + 2]], B[columns[e + 3]]
            for i in range(len(f)):
                f[i] += w0 * b0[i] + w1 * b1[i] + w2 * b2[i] + w3 * b3[i]
            e += 4
        while e < stop:
            w0, b0 = data[e], B[columns[e]]
            for i in range(len(f)):
                f[i] += w0 * b0[i]
            e += 1
        for _ in range(roots):
            for i in range(len(f)):
                f[i] = np.sqrt(f[i])
        for q in range(len(VT)):
            total = 0.0
            for i in range(len(f)):
                total += f[i] * VT[q, i]
            E[j, q] = total
