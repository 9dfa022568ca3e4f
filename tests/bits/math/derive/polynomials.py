#!/usr/bin/env python3
"""Derives the polynomials of src/numerics/math.h and double_math.h (needs mpmath; takes half a minute).

Each fit is a Remez exchange in 60 digits on the error weighted as the function will be judged, and its coefficients are
then rounded to the format they are stored in: the terms in front of each polynomial are exact, so that this rounding is
far below the function's.
"""

from mpmath import cos, exp, frexp, ln, log, log1p, lu_solve, matrix, mp, mpf, pi, sin, sqrt

mp.dps = 60


def round_to(x, bits):
    """The nearest number of `bits` significant bits."""
    if x == 0:
        return mpf(0)
    mantissa, exponent = frexp(x)
    return mp.nint(mantissa * mpf(2) ** bits) * mpf(2) ** (exponent - bits)


def value(c, x):
    return sum(ck * x**k for k, ck in enumerate(c))


def exchange(grid, goal, heavy, degree, points):
    """One run of exchanges from the grid points given; returns (coefficients, last points)."""
    n = degree + 2
    best = None
    for _ in range(10):
        rows, right = matrix(n, n), matrix(n, 1)
        for i, g in enumerate(points):
            for k in range(degree + 1):
                rows[i, k] = heavy[g] * grid[g] ** k
            rows[i, n - 1] = (-1) ** i
            right[i] = heavy[g] * goal[g]
        solution = lu_solve(rows, right)
        c = [solution[k] for k in range(degree + 1)]
        error = [w * (value(c, x) - t) for x, t, w in zip(grid, goal, heavy, strict=True)]
        worst = max(abs(e) for e in error)
        if best is not None and worst > best[0] * mpf("0.9999"):
            break
        best = (worst, c, points)
        extrema = []
        for g, e in enumerate(error):
            if extrema and (error[extrema[-1]] > 0) == (e > 0):
                if abs(e) > abs(error[extrema[-1]]):
                    extrema[-1] = g
            else:
                extrema.append(g)
        while len(extrema) > n:
            extrema.pop(0 if abs(error[extrema[0]]) < abs(error[extrema[-1]]) else -1)
        if len(extrema) < n:
            break
        points = extrema
    return best[1:]


def remez(target, weight, low, high, degree):
    """Minimises max |weight(x) (c(x) - target(x))| over a grid. A weight that vanishes inside the interval is
    approached from a bounded one, so that each exchange starts near its end."""
    size = 600
    grid = [low + (high - low) * i / mpf(size) for i in range(size + 1)]
    goal = [target(x) for x in grid]
    full = [weight(x) for x in grid]
    points = [int(size * (1 - float(cos(pi * i / (degree + 1)))) / 2) for i in range(degree + 2)]
    tries = []
    for floor in ("1", "0.5", "0.2", "0.1", "0.05", "0.02", "0.01", "0.001", "0"):
        heavy = [max(w, mpf(floor) * max(full)) for w in full]
        c, points = exchange(grid, goal, heavy, degree, points)
        tries.append((max(w * abs(value(c, x) - t) for x, t, w in zip(grid, goal, full, strict=True)), c))
    return min(tries, key=lambda each: each[0])[1]


def fit(name, target, weight, low, high, degree, bits):
    low, high = mpf(low), mpf(high)
    c = [round_to(x, bits) for x in remez(target, weight, low, high, degree)]
    grid = [low + (high - low) * k / mpf(3000) for k in range(3001)]
    total = max(weight(x) * abs(value(c, x) - target(x)) for x in grid)
    print(f"{name}: error 2^{float(log(total, 2)):.2f}")
    print("  " + ", ".join(float(x).hex() for x in c))


def split(name, x, widths):
    parts = []
    for bits in widths:
        parts.append(round_to(x, bits))
        x -= parts[-1]
    print(f"{name}: " + ", ".join(float(p).hex() for p in parts))


def exp_tail(x):  # exp(x) = 1 + x + x^2 Q(x)
    return sum(x ** (k - 2) / mp.factorial(k) for k in range(2, 40))


def log1p_tail(x):  # log(1 + x) = x - x^2 / 2 + x^3 Q(x)
    return sum((-1) ** (k + 1) * x ** (k - 3) / mpf(k) for k in range(3, 120))


def sin_tail(z):  # sin(r) = r + r^3 S(z), z = r^2
    return sum((-1) ** (k + 1) * z**k / mp.factorial(2 * k + 3) for k in range(30))


def cos_tail(z):  # cos(r) = 1 - z / 2 + z^2 C(z), z = r^2
    return sum((-1) ** k * z**k / mp.factorial(2 * k + 4) for k in range(30))


def atanh_tail(z):  # log(m) = 2 s (1 + z / 3 + z^2 L(z)), z = s^2, s = (m - 1) / (m + 1)
    return sum(z**k / mpf(2 * k + 5) for k in range(60))


def main():
    split("ln 2, float32 exp (24, 24)", ln(2), [24, 24])
    split("ln 2, float32 log (16, 24)", ln(2), [16, 24])
    split("ln 2, double (42, 53)", ln(2), [42, 53])
    split("log2(e), float32", 1 / ln(2), [24])
    split("log2(e), double", 1 / ln(2), [53])
    split("pi / 2 (53, 53, 53)", pi / 2, [53, 53, 53])
    split("2 / pi", 2 / pi, [53])
    split("1 / 3 (53, 53)", mpf(1) / 3, [53, 53])
    half_ln2 = ln(2) / 2 * mpf("1.0002")
    third = mpf(1) / 3 + mpf(2) ** -22
    quarter = (pi / 4 * mpf("1.0000001")) ** 2
    tiny = mpf(10) ** -30
    fit("exp32 Q", exp_tail, lambda x: x * x / exp(x), -half_ln2, half_ln2, 4, 24)
    fit("log32 Q", log1p_tail, lambda x: abs(x) ** 3 / abs(log1p(x)) if x else mpf(0), -third, third, 8, 24)
    fit("sin_f64 S", sin_tail, lambda z: z * sqrt(z) / sin(sqrt(z)) if z else tiny, 0, quarter, 6, 53)
    fit("cos_f64 C", cos_tail, lambda z: z * z / cos(sqrt(z)) + tiny, 0, quarter, 5, 53)
    fit("exp_f64 Q", exp_tail, lambda x: x * x / exp(x), -half_ln2, half_ln2, 10, 53)
    fit("log_f64 L", atanh_tail, lambda z: z * z + tiny, 0, mpf(1) / 25 * mpf("1.000001"), 8, 53)


if __name__ == "__main__":
    main()
