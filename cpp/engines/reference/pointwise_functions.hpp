// The elementwise functions, in double and, where all types are integers, exactly.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "elements.hpp"
#include "raggeddnn/schema/pointwise_problem.hpp"

namespace raggeddnn::reference {

// Modes whose results on integers are integers.
inline bool is_exact_on_integers(schema::PointwiseMode mode) {
    using Mode = schema::PointwiseMode;
    switch (mode) {
        case Mode::ABS:
        case Mode::ADD:
        case Mode::ADD_SQUARE:
        case Mode::BINARY_SELECT:
        case Mode::CEIL:
        case Mode::CMP_EQ:
        case Mode::CMP_GE:
        case Mode::CMP_GT:
        case Mode::CMP_LE:
        case Mode::CMP_LT:
        case Mode::CMP_NEQ:
        case Mode::DIV:
        case Mode::FLOOR:
        case Mode::GEN_INDEX:
        case Mode::IDENTITY:
        case Mode::LOGICAL_AND:
        case Mode::LOGICAL_NOT:
        case Mode::LOGICAL_OR:
        case Mode::MAX_OP:
        case Mode::MIN_OP:
        case Mode::MUL:
        case Mode::NEG:
        case Mode::SUB: return true;
        default: return false;
    }
}

inline double sigmoid(double x) {
    return x >= 0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x));
}

// log(1 + e^x) without overflow.
inline double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

// Phi(x) x, with Phi the normal distribution.
inline double gelu(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }

inline double gelu_slope(double x) {
    const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * density;
}

inline constexpr double GELU_TANH_SCALE = 0.79788456080286535588;  // sqrt(2 / pi)
inline constexpr double GELU_TANH_CUBIC = 0.044715;

inline double gelu_tanh(double x) {
    return 0.5 * x * (1.0 + std::tanh(GELU_TANH_SCALE * (x + GELU_TANH_CUBIC * x * x * x)));
}

inline double gelu_tanh_slope(double x) {
    const double t = std::tanh(GELU_TANH_SCALE * (x + GELU_TANH_CUBIC * x * x * x));
    const double inner = GELU_TANH_SCALE * (1.0 + 3.0 * GELU_TANH_CUBIC * x * x);
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner;
}

// NaN in either gives NaN.
template <class T>
T least(T a, T b) {
    if constexpr (std::is_same_v<T, double>) {
        if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
    }
    return std::min(a, b);
}

template <class T>
T greatest(T a, T b) {
    if constexpr (std::is_same_v<T, double>) {
        if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
    }
    return std::max(a, b);
}

// Integers: towards zero, and by zero the end of the range that the sign says.
template <class T>
T quotient(T a, T b) {
    if constexpr (!std::is_same_v<T, double>) {
        if (b == 0) {
            if (a == 0) return 0;
            return a > 0 ? std::numeric_limits<int64_t>::max()
                         : std::numeric_limits<int64_t>::min();
        }
    }
    return a / b;
}

// Activations of one input.
inline double activate(const schema::PointwiseProblem& p, double x) {
    using Mode = schema::PointwiseMode;
    switch (p.mode) {
        case Mode::ELU_FWD: return x > 0 ? x : p.elu_alpha * std::expm1(x);
        case Mode::ERF: return std::erf(x);
        case Mode::EXP: return std::exp(x);
        case Mode::GELU_APPROX_TANH_FWD: return gelu_tanh(x);
        case Mode::GELU_FWD: return gelu(x);
        case Mode::LOG: return std::log(x);
        case Mode::RECIPROCAL: return 1.0 / x;
        case Mode::RELU_FWD:
            return x <= p.lower_clip ? p.lower_clip + p.lower_slope * (x - p.lower_clip)
                                     : least(x, p.upper_clip);
        case Mode::RSQRT: return 1.0 / std::sqrt(x);
        case Mode::SIGMOID_FWD: return sigmoid(x);
        case Mode::SIN: return std::sin(x);
        case Mode::SOFTPLUS_FWD: return softplus(p.softplus_beta * x) / p.softplus_beta;
        case Mode::SQRT: return std::sqrt(x);
        case Mode::SWISH_FWD: return x * sigmoid(p.swish_beta * x);
        case Mode::TAN: return std::tan(x);
        case Mode::TANH_FWD: return std::tanh(x);
        default: fail(ErrorCode::INTERNAL_ERROR, "[pointwise] mode ", static_cast<int>(p.mode));
    }
}

// The derivative of the activation at x.
inline double slope(const schema::PointwiseProblem& p, double x) {
    using Mode = schema::PointwiseMode;
    switch (p.mode) {
        case Mode::ELU_BWD: return x > 0 ? 1.0 : p.elu_alpha * std::exp(x);
        case Mode::GELU_APPROX_TANH_BWD: return gelu_tanh_slope(x);
        case Mode::GELU_BWD: return gelu_slope(x);
        case Mode::RELU_BWD:
            if (x <= p.lower_clip) return p.lower_slope;
            return x >= p.upper_clip ? 0.0 : 1.0;
        case Mode::SIGMOID_BWD: return sigmoid(x) * sigmoid(-x);
        case Mode::SOFTPLUS_BWD: return sigmoid(p.softplus_beta * x);
        case Mode::SWISH_BWD: {
            const double s = sigmoid(p.swish_beta * x);
            return s + p.swish_beta * x * s * (1.0 - s);
        }
        case Mode::TANH_BWD: {
            const double t = std::tanh(x);
            return (1.0 - t) * (1.0 + t);
        }
        default: fail(ErrorCode::INTERNAL_ERROR, "[pointwise] mode ", static_cast<int>(p.mode));
    }
}

// T: double or Wide. `index` is the element's index over the axis of GEN_INDEX. A gradient mode
// takes dy and the input of the activation; BINARY_SELECT takes a where c is not zero, else b.
template <class T>
T pointwise(const schema::PointwiseProblem& p, T a, T b, T c, int64_t index) {
    using Mode = schema::PointwiseMode;
    switch (p.mode) {
        case Mode::ABS: return a < 0 ? -a : (a == 0 ? T(0) : a);
        case Mode::ADD: return a + b;
        case Mode::ADD_SQUARE: return a + b * b;
        case Mode::BINARY_SELECT: return c != 0 ? a : b;
        case Mode::CMP_EQ: return a == b;
        case Mode::CMP_GE: return a >= b;
        case Mode::CMP_GT: return a > b;
        case Mode::CMP_LE: return a <= b;
        case Mode::CMP_LT: return a < b;
        case Mode::CMP_NEQ: return a != b;
        case Mode::DIV: return quotient(a, b);
        case Mode::GEN_INDEX: return static_cast<T>(index);
        case Mode::IDENTITY: return a;
        case Mode::LOGICAL_AND: return a != 0 && b != 0;
        case Mode::LOGICAL_NOT: return a == 0;
        case Mode::LOGICAL_OR: return a != 0 || b != 0;
        case Mode::MAX_OP: return greatest(a, b);
        case Mode::MIN_OP: return least(a, b);
        case Mode::MUL: return a * b;
        case Mode::NEG: return -a;
        case Mode::SUB: return a - b;
        default: break;
    }
    if constexpr (std::is_same_v<T, double>) {
        if (p.mode == Mode::CEIL) return std::ceil(a);
        if (p.mode == Mode::FLOOR) return std::floor(a);
        return p.inputs.size() == 1 ? activate(p, a) : a * slope(p, b);
    } else {
        return a;  // CEIL and FLOOR of an integer
    }
}

}  // namespace raggeddnn::reference
