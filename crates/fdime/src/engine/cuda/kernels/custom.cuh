// A custom divergence: f, f' and f'' by forward-mode automatic differentiation, in double precision as
// on the CPU (divergence/expression.rs, which also writes the functions `expression` and
// `custom_divergence` that follow this file).

const double LN_2 = 0.69314718055994531, LN_10 = 2.3025850929940457;
#define NOT_A_NUMBER __longlong_as_double(0x7ff8000000000000ll)

// The value, first and second derivative of a function at one point.
struct Jet { double f, f1, f2; };

__device__ inline Jet constant(double value) { return {value, 0.0, 0.0}; }
__device__ inline Jet variable(double value) { return {value, 1.0, 0.0}; }
__device__ inline Jet add(Jet f, Jet g) { return {f.f + g.f, f.f1 + g.f1, f.f2 + g.f2}; }
__device__ inline Jet subtract(Jet f, Jet g) { return {f.f - g.f, f.f1 - g.f1, f.f2 - g.f2}; }
__device__ inline Jet multiply(Jet f, Jet g) {
    return {f.f * g.f, f.f1 * g.f + f.f * g.f1, f.f2 * g.f + 2.0 * f.f1 * g.f1 + f.f * g.f2};
}
__device__ inline Jet divide(Jet f, Jet g) {
    double q = f.f / g.f, q1 = (f.f1 - q * g.f1) / g.f;
    return {q, q1, (f.f2 - 2.0 * q1 * g.f1 - q * g.f2) / g.f};
}
// g(f), given g, g' and g'' at f.
__device__ inline Jet compose(Jet f, double g, double g1, double g2) {
    return {g, g1 * f.f1, g2 * f.f1 * f.f1 + g1 * f.f2};
}
__device__ inline Jet power(Jet f, Jet g) {
    Jet h = multiply(g, compose(f, log(f.f), 1.0 / f.f, -1.0 / (f.f * f.f)));
    double value = pow(f.f, g.f);
    return {value, value * h.f1, value * (h.f1 * h.f1 + h.f2)};
}
__device__ inline Jet constant_power(Jet f, double c) {
    // A coefficient of 0 stays 0 where the power is 1/0.
    double g1 = c == 0.0 ? 0.0 : c * pow(f.f, c - 1.0);
    double g2 = c * (c - 1.0) == 0.0 ? 0.0 : c * (c - 1.0) * pow(f.f, c - 2.0);
    return compose(f, pow(f.f, c), g1, g2);
}

// a, b and their slopes at u = e^l (divergence/custom.rs); `at_one` is f(1), which is subtracted.
__device__ inline float4 divergence_of(double u, Jet f, double at_one) {
    return make_float4((float)f.f1, (float)(u * f.f1 - (f.f - at_one)), (float)(u * f.f2), (float)(u * u * f.f2));
}
