#!/usr/bin/env python3
"""Derives the polynomials of src/numerics/math.h and double_math.h (needs mpmath; takes half a minute).

Each fit is a Remez exchange in 60 digits on the error weighted as the function will be judged, and its coefficients are then rounded to the
format they are stored in: the terms in front of each polynomial are exact, so that this rounding is far below the function's.
"""
from mpmath import mp, mpf, matrix, lu_solve, log1p, exp, sin, cos, atanh, sqrt, cos as mcos, pi, ln, log, frexp

mp.dps = 60


def round_to(x, bits):
    """The nearest number of `bits` significant bits."""
    if x == 0:
        return mpf(0)
    mantissa, exponent = frexp(x)
    scaled = mantissa * mpf(2) ** bits
    return mp.nint(scaled) * mpf(2) ** (exponent - bits)


def exchange(grid, goal, heavy, powers, start):
    """One run of exchanges from the grid points `start`; returns (worst error, coefficients, last points)."""
    n = len(powers) + 1
    points = start
    best = None
    for _ in range(10):
        rows, right = matrix(n, n), matrix(n, 1)
        for i, g in enumerate(points):
            for j, p in enumerate(powers):
                rows[i, j] = heavy[g] * grid[g] ** p
            rows[i, n - 1] = (-1) ** i
            right[i] = heavy[g] * goal[g]
        solution = lu_solve(rows, right)
        c = [solution[j] for j in range(n - 1)]
        error = [w * (sum(cj * x ** p for cj, p in zip(c, powers)) - t) for x, t, w in zip(grid, goal, heavy)]
        worst = max(abs(e) for e in error)
        if best is not None and worst > best[0] * mpf('0.9999'):
            break
        extrema = []
        for g, e in enumerate(error):
            if extrema and (error[extrema[-1]] > 0) == (e > 0):
                if abs(e) > abs(error[extrema[-1]]):
                    extrema[-1] = g
            else:
                extrema.append(g)
        while len(extrema) > n:
            extrema.pop(0 if abs(error[extrema[0]]) < abs(error[extrema[-1]]) else -1)
        best = (worst, c, points)
        if len(extrema) < n:
            break
        points = extrema
    return best


def remez(target, weight, low, high, powers):
    """Minimises max |weight(x) (sum c_p x^p - target(x))| over a grid. A weight that vanishes inside the interval is approached from
    a bounded one, so that the exchange always starts near its end."""
    n, size = len(powers) + 1, 600
    grid = [low + (high - low) * i / mpf(size) for i in range(size + 1)]
    goal = [target(x) for x in grid]
    full = [weight(x) for x in grid]
    points = [int(size * (1 - float(mcos(pi * i / (n - 1)))) / 2) for i in range(n)]
    for floor_at in ('1', '0.5', '0.2', '0.1', '0.05', '0.02', '0.01', '0.001', '0'):
        heavy = [max(w, mpf(floor_at) * max(full)) for w in full]
        worst, c, points = exchange(grid, goal, heavy, powers, points)
        true_error = max(w * abs(sum(cj * x ** p for cj, p in zip(c, powers)) - t) for x, t, w in zip(grid, goal, full))
        if floor_at == '1' or true_error < best[1]:
            best = (c, true_error)
    return best


def fit(name, target, weight, low, high, degree, bits):
    low, high = mpf(low), mpf(high)
    c, _ = remez(target, weight, low, high, list(range(degree + 1)))
    c = [round_to(x, bits) for x in c]
    total = max(weight(x) * abs(sum(ck * x ** k for k, ck in enumerate(c)) - target(x))
                for x in (low + (high - low) * k / mpf(3000) for k in range(3001)))
    print(f'{name}: error 2^{float(log(total, 2)):.2f}')
    print('  ' + ', '.join(f'{float(x).hex()}' for x in c))


def split(name, x, widths):
    parts = []
    for bits in widths:
        parts.append(round_to(x, bits))
        x -= parts[-1]
    print(f'{name}: ' + ', '.join(float(p).hex() for p in parts))


def main():
    split('ln2 for float32 exp (24, 24)', ln(2), [24, 24])
    split('ln2 for float32 log (16, 24)', ln(2), [16, 24])
    split('ln2 for double (42, 53, 53)', ln(2), [42, 53, 53])
    split('log2(e) float32', 1 / ln(2), [24])
    split('log2(e) double', 1 / ln(2), [53])
    split('pi/2 (53, 53, 53)', pi / 2, [53, 53, 53])
    split('2/pi', 2 / pi, [53])
    split('1/3 (53, 53)', mpf(1) / 3, [53, 53])
    half_ln2 = ln(2) / 2 * mpf('1.0002')
    # exp32: exp(f) = 1 + f + f^2 Q(f); the error is relative to exp(f).
    q = lambda x: sum(x ** (k - 2) / mp.factorial(k) for k in range(2, 40))
    fit('exp32 Q', q, lambda x: x * x / exp(x), -half_ln2, half_ln2, 4, 24)
    # log32 and log1p32: log(1 + f) = f - f^2/2 + f^3 Q(f), f in [-1/3, 1/3]; the error is relative to log(1 + f).
    q = lambda x: sum((-1) ** (k + 1) * x ** (k - 3) / mpf(k) for k in range(3, 120))
    third = mpf(1) / 3 + mpf(2) ** -22
    fit('log32 Q', q, lambda x: abs(x) ** 3 / (abs(log1p(x)) if x != 0 else 1), -third, third, 8, 24)
    quarter = pi / 4 * mpf('1.0000001')
    # sin: r + r^3 S(r^2); cos: 1 - r^2/2 + r^4 C(r^2); fitted in z = r^2.
    s = lambda z: sum((-1) ** (k + 1) * z ** k / mp.factorial(2 * k + 3) for k in range(0, 30))
    c = lambda z: sum((-1) ** k * z ** k / mp.factorial(2 * k + 4) for k in range(0, 30))
    fit('sin S', s, lambda z: z * sqrt(z) / sin(sqrt(z)) if z > 0 else mpf(0) + mpf(10) ** -30, 0, quarter ** 2, 6, 53)
    fit('cos C', c, lambda z: z * z / cos(sqrt(z)) + mpf(10) ** -30, 0, quarter ** 2, 5, 53)
    # double exp: 1 + f + f^2 Q(f).
    q = lambda x: sum(x ** (k - 2) / mp.factorial(k) for k in range(2, 40))
    fit('exp64 Q', q, lambda x: x * x / exp(x), -half_ln2, half_ln2, 10, 53)
    # double log: log(m) = 2 atanh(s) = 2 s (1 + z/3 + z^2 L(z)), z = s^2, |s| <= 1/5 (m in [2/3, 4/3]).
    l = lambda z: sum(z ** k / mpf(2 * k + 5) for k in range(0, 60))
    fit('log64 L', l, lambda z: z * z + mpf(10) ** -30, 0, mpf(1) / 25 * mpf('1.000001'), 8, 53)


if __name__ == '__main__':
    main()
