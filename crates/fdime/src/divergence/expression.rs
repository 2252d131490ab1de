//! Expressions in u, compiled to a postfix program that evaluates f, f' and f'' together.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = power { ("*" | "/") power }
//! power   = operand [ "^" operand ]
//! operand = ("-" | "+") power | number | constant | "u" | "(" sum ")" | function "(" sum ")"
//! ```
//!
//! A function of a single number, constant or u needs no parentheses: `u*ln u`. Powers of powers
//! do, since readers differ about `u^v^w`. Derivatives come from forward-mode automatic
//! differentiation: every value on the stack is a [`Jet`]. The same program can be written as a
//! kernel's source ([`Expression::kernel_source`]).

use std::f64::consts::{E, LN_2, LN_10, PI, TAU};
use std::fmt;

/// The longest expression in bytes, which also limits the number of operations.
const MAX_LENGTH: usize = 20_000;

/// The maximum nesting of parentheses, functions, signs and right operands. It limits the recursion
/// of the parser and, since each level has at most one pending left operand, the stack of [`run`].
const MAX_DEPTH: usize = 256;

/// The maximum number of operations of an expression in a kernel.
#[cfg(feature = "cuda")]
const MAX_KERNEL_OPERATIONS: usize = 1000;

/// A stack size that is enough for most expressions and cheaper to initialise than `MAX_DEPTH`.
const SMALL_DEPTH: usize = 8;

/// The value, first and second derivative of a function at one point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Jet {
    pub f: f64,
    pub f1: f64,
    pub f2: f64,
}

impl Jet {
    fn constant(value: f64) -> Self {
        Jet { f: value, f1: 0.0, f2: 0.0 }
    }

    fn add(self, g: Jet) -> Jet {
        Jet { f: self.f + g.f, f1: self.f1 + g.f1, f2: self.f2 + g.f2 }
    }

    fn subtract(self, g: Jet) -> Jet {
        Jet { f: self.f - g.f, f1: self.f1 - g.f1, f2: self.f2 - g.f2 }
    }

    /// (f g)' = f' g + f g' and (f g)'' = f'' g + 2 f' g' + f g''.
    fn multiply(self, g: Jet) -> Jet {
        Jet {
            f: self.f * g.f,
            f1: self.f1 * g.f + self.f * g.f1,
            f2: self.f2 * g.f + 2.0 * self.f1 * g.f1 + self.f * g.f2,
        }
    }

    /// With q = f / g: q' = (f' - q g') / g and q'' = (f'' - 2 q' g' - q g'') / g.
    fn divide(self, g: Jet) -> Jet {
        let q = self.f / g.f;
        let q1 = (self.f1 - q * g.f1) / g.f;
        Jet { f: q, f1: q1, f2: (self.f2 - 2.0 * q1 * g.f1 - q * g.f2) / g.f }
    }

    /// (g(f))' = g' f' and (g(f))'' = g'' f'^2 + g' f'', given `[g, g', g'']` at f.
    fn compose(self, [g, g1, g2]: [f64; 3]) -> Jet {
        Jet { f: g, f1: g1 * self.f1, f2: g2 * self.f1 * self.f1 + g1 * self.f2 }
    }

    /// f^g = e^h with h = g ln f: (e^h)' = e^h h' and (e^h)'' = e^h (h'^2 + h'').
    fn power(self, g: Jet) -> Jet {
        let h = g.multiply(self.compose(ln(self.f)));
        let value = self.f.powf(g.f);
        Jet { f: value, f1: value * h.f1, f2: value * (h.f1 * h.f1 + h.f2) }
    }

    /// f^c for a constant c, which may be an integer power of a negative f.
    fn constant_power(self, c: f64) -> Jet {
        let term = |coefficient: f64, exponent: f64| {
            if coefficient == 0.0 {
                // The power may be 1/0.
                0.0
            } else if exponent == exponent.trunc() && exponent.abs() <= 64.0 {
                coefficient * self.f.powi(exponent as i32)
            } else {
                coefficient * self.f.powf(exponent)
            }
        };
        self.compose([term(1.0, c), term(c, c - 1.0), term(c * (c - 1.0), c - 2.0)])
    }
}

/// A function of one number with its first and second derivative.
struct Function {
    name: &'static str,
    jet: fn(f64) -> [f64; 3],
    /// The same three values at `x` in the language of the GPU's kernels.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    kernel_source: &'static str,
}

const CONSTANTS: [(&str, f64); 6] =
    [("PI", PI), ("π", PI), ("E", E), ("e", E), ("TAU", TAU), ("τ", TAU)];

const fn function(
    name: &'static str,
    jet: fn(f64) -> [f64; 3],
    kernel_source: &'static str,
) -> Function {
    Function { name, jet, kernel_source }
}

/// The derivatives of step functions are NaN, so that f may use them for constants only.
static FUNCTIONS: [Function; 26] = [
    function("ln", ln, "log(x), 1 / x, -1 / (x * x)"),
    function("log", ln, "log(x), 1 / x, -1 / (x * x)"),
    function("log2", |x| ln(x).map(|d| d / LN_2), "log2(x), 1 / (x * LN_2), -1 / (x * x * LN_2)"),
    function(
        "log10",
        |x| ln(x).map(|d| d / LN_10),
        "log10(x), 1 / (x * LN_10), -1 / (x * x * LN_10)",
    ),
    function("exp", |x| [x.exp(); 3], "exp(x), exp(x), exp(x)"),
    function(
        "sqrt",
        |x| [x.sqrt(), 0.5 / x.sqrt(), -0.25 / (x * x.sqrt())],
        "sqrt(x), 0.5 / sqrt(x), -0.25 / (x * sqrt(x))",
    ),
    function(
        "cbrt",
        |x| [x.cbrt(), x.cbrt() / (3.0 * x), -2.0 * x.cbrt() / (9.0 * x * x)],
        "cbrt(x), cbrt(x) / (3 * x), -2 * cbrt(x) / (9 * x * x)",
    ),
    function("abs", |x| [x.abs(), x.signum(), 0.0], "fabs(x), copysign(1.0, x), 0"),
    function("sin", |x| [x.sin(), x.cos(), -x.sin()], "sin(x), cos(x), -sin(x)"),
    function("cos", |x| [x.cos(), -x.sin(), -x.cos()], "cos(x), -sin(x), -cos(x)"),
    function(
        "tan",
        |x| [x.tan(), x.cos().powi(-2), 2.0 * x.tan() * x.cos().powi(-2)],
        "tan(x), pow(cos(x), -2), 2 * tan(x) * pow(cos(x), -2)",
    ),
    function(
        "asin",
        |x| [x.asin(), (1.0 - x * x).powf(-0.5), x * (1.0 - x * x).powf(-1.5)],
        "asin(x), pow(1 - x * x, -0.5), x * pow(1 - x * x, -1.5)",
    ),
    function(
        "acos",
        |x| [x.acos(), -(1.0 - x * x).powf(-0.5), -x * (1.0 - x * x).powf(-1.5)],
        "acos(x), -pow(1 - x * x, -0.5), -x * pow(1 - x * x, -1.5)",
    ),
    function(
        "atan",
        |x| [x.atan(), 1.0 / (1.0 + x * x), -2.0 * x / (1.0 + x * x).powi(2)],
        "atan(x), 1 / (1 + x * x), -2 * x * pow(1 + x * x, -2)",
    ),
    function("sinh", |x| [x.sinh(), x.cosh(), x.sinh()], "sinh(x), cosh(x), sinh(x)"),
    function("cosh", |x| [x.cosh(), x.sinh(), x.cosh()], "cosh(x), sinh(x), cosh(x)"),
    function(
        "tanh",
        |x| [x.tanh(), x.cosh().powi(-2), -2.0 * x.tanh() * x.cosh().powi(-2)],
        "tanh(x), pow(cosh(x), -2), -2 * tanh(x) * pow(cosh(x), -2)",
    ),
    function(
        "asinh",
        |x| [x.asinh(), (x * x + 1.0).powf(-0.5), -x * (x * x + 1.0).powf(-1.5)],
        "asinh(x), pow(x * x + 1, -0.5), -x * pow(x * x + 1, -1.5)",
    ),
    function(
        "acosh",
        |x| [x.acosh(), (x * x - 1.0).powf(-0.5), -x * (x * x - 1.0).powf(-1.5)],
        "acosh(x), pow(x * x - 1, -0.5), -x * pow(x * x - 1, -1.5)",
    ),
    function(
        "atanh",
        |x| [x.atanh(), 1.0 / (1.0 - x * x), 2.0 * x / (1.0 - x * x).powi(2)],
        "atanh(x), 1 / (1 - x * x), 2 * x * pow(1 - x * x, -2)",
    ),
    function(
        "signum",
        |x| [x.signum(), f64::NAN, f64::NAN],
        "copysign(1.0, x), NOT_A_NUMBER, NOT_A_NUMBER",
    ),
    function("floor", |x| [x.floor(), f64::NAN, f64::NAN], "floor(x), NOT_A_NUMBER, NOT_A_NUMBER"),
    function("ceil", |x| [x.ceil(), f64::NAN, f64::NAN], "ceil(x), NOT_A_NUMBER, NOT_A_NUMBER"),
    function("round", |x| [x.round(), f64::NAN, f64::NAN], "round(x), NOT_A_NUMBER, NOT_A_NUMBER"),
    function("trunc", |x| [x.trunc(), f64::NAN, f64::NAN], "trunc(x), NOT_A_NUMBER, NOT_A_NUMBER"),
    function(
        "fract",
        |x| [x.fract(), f64::NAN, f64::NAN],
        "x - trunc(x), NOT_A_NUMBER, NOT_A_NUMBER",
    ),
];

fn ln(x: f64) -> [f64; 3] {
    [x.ln(), 1.0 / x, -1.0 / (x * x)]
}

/// An operation of a program; it replaces its operands on top of the stack by its result.
#[derive(Clone, Copy)]
enum Operation {
    Number(f64),
    U,
    Apply(&'static Function),
    ConstantPower(f64),
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
}

impl Operation {
    fn operands(&self) -> usize {
        match self {
            Operation::Number(_) | Operation::U => 0,
            Operation::Apply(_) | Operation::ConstantPower(_) => 1,
            _ => 2,
        }
    }
}

/// Runs a program on a stack of at most N values.
fn run<const N: usize>(operations: &[Operation], u: f64) -> Jet {
    let mut stack = [Jet::constant(0.0); N];
    let mut size = 0;
    for operation in operations {
        let result = match *operation {
            Operation::Number(value) => Jet::constant(value),
            Operation::U => Jet { f: u, f1: 1.0, f2: 0.0 },
            Operation::Apply(g) => stack[size - 1].compose((g.jet)(stack[size - 1].f)),
            Operation::ConstantPower(c) => stack[size - 1].constant_power(c),
            Operation::Add => stack[size - 2].add(stack[size - 1]),
            Operation::Subtract => stack[size - 2].subtract(stack[size - 1]),
            Operation::Multiply => stack[size - 2].multiply(stack[size - 1]),
            Operation::Divide => stack[size - 2].divide(stack[size - 1]),
            Operation::Power => stack[size - 2].power(stack[size - 1]),
        };
        size = size + 1 - operation.operands();
        stack[size - 1] = result;
    }
    stack[0]
}

/// A compiled expression in u.
pub(super) struct Expression {
    operations: Vec<Operation>,
    /// An upper bound of the number of values on the stack.
    depth: usize,
}

impl Expression {
    /// Parses an expression; an error describes the problem and its position.
    pub(super) fn parse(text: &str) -> Result<Self, SyntaxError> {
        if text.len() > MAX_LENGTH {
            let message = format!("it has {} bytes, the maximum is {MAX_LENGTH}", text.len());
            return Err(SyntaxError { message, position: None });
        }
        let mut parser = Parser { text, position: 0, depth: 0, max_depth: 0, operations: vec![] };
        parser.binary(SUM)?;
        match parser.peek() {
            None => Ok(Expression { operations: parser.operations, depth: parser.max_depth }),
            Some(')') => parser.fail("there is no '(' for this ')'"),
            Some(symbol) => parser.fail(format!("expected an operator, found '{symbol}'")),
        }
    }

    /// Returns whether u occurs in the expression.
    pub(super) fn depends_on_u(&self) -> bool {
        self.operations.iter().any(|operation| matches!(operation, Operation::U))
    }

    /// Returns f, f' and f'' at u.
    pub(super) fn evaluate(&self, u: f64) -> Jet {
        if self.depth <= SMALL_DEPTH {
            run::<SMALL_DEPTH>(&self.operations, u)
        } else {
            run::<MAX_DEPTH>(&self.operations, u)
        }
    }

    /// Returns the function `expression(u)` in the language of the GPU's kernels, in terms of the
    /// operations of custom.cuh, or `None` if the expression is too long to be compiled quickly.
    #[cfg(feature = "cuda")]
    pub(super) fn kernel_source(&self) -> Option<String> {
        if self.operations.len() > MAX_KERNEL_OPERATIONS {
            return None;
        }
        let define = |Function { name, kernel_source, .. }: &Function| {
            format!(
                "__device__ inline Jet apply_{name}(Jet jet) \
                 {{ double x = jet.f; return compose(jet, {kernel_source}); }}\n"
            )
        };
        let mut source: String = FUNCTIONS.iter().map(define).collect();
        source += "__device__ __noinline__ Jet expression(double u) {\n";
        let mut stack = Vec::new();
        for (place, operation) in self.operations.iter().enumerate() {
            let operands = stack.split_off(stack.len().saturating_sub(operation.operands()));
            let operands = operands.join(", ");
            let value = match operation {
                Operation::Number(value) => format!("constant({})", kernel_number(*value)),
                Operation::U => "variable(u)".into(),
                Operation::Apply(function) => format!("apply_{}({operands})", function.name),
                Operation::ConstantPower(c) => {
                    format!("constant_power({operands}, {})", kernel_number(*c))
                }
                Operation::Add => format!("add({operands})"),
                Operation::Subtract => format!("subtract({operands})"),
                Operation::Multiply => format!("multiply({operands})"),
                Operation::Divide => format!("divide({operands})"),
                Operation::Power => format!("power({operands})"),
            };
            source += &format!("Jet v{place} = {value};\n");
            stack.push(format!("v{place}"));
        }
        Some(source + &format!("return {};\n}}\n", stack.pop()?))
    }
}

/// Returns exactly this number in the language of the kernels.
#[cfg(feature = "cuda")]
pub(super) fn kernel_number(value: f64) -> String {
    format!("__longlong_as_double(0x{:016x}ll)", value.to_bits())
}

/// The reason why a text is not an expression.
#[derive(Debug)]
pub(super) struct SyntaxError {
    message: String,
    /// The position of the problem in characters from 1, `None` for the whole text.
    position: Option<usize>,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(position) => write!(f, "{} (character {position})", self.message),
            None => f.write_str(&self.message),
        }
    }
}

// The precedence of operators.
const SUM: u8 = 1;
const PRODUCT: u8 = 2;
const POWER: u8 = 3;

/// A precedence-climbing parser that emits operations in postfix order.
struct Parser<'a> {
    text: &'a str,
    /// The next byte to read.
    position: usize,
    depth: usize,
    max_depth: usize,
    operations: Vec<Operation>,
}

impl<'a> Parser<'a> {
    /// Returns the next operator if it is a power, which is also written as in Python.
    fn power(&mut self) -> Option<&'static str> {
        self.peek();
        ["^", "**"].into_iter().find(|sign| self.text[self.position..].starts_with(sign))
    }

    /// Skips spaces and returns the next character, `None` at the end.
    fn peek(&mut self) -> Option<char> {
        let rest = self.text[self.position..].trim_start();
        self.position = self.text.len() - rest.len();
        rest.chars().next()
    }

    /// Reads the characters up to the first one that is not `accepted`.
    fn take_while(&mut self, accepted: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.position..];
        let length = rest.find(|c| !accepted(c)).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, SyntaxError> {
        let position = self.text[..self.position].chars().count() + 1;
        Err(SyntaxError { message: message.into(), position: Some(position) })
    }

    /// Parses operands that are joined by operators of at least this precedence.
    fn binary(&mut self, min_precedence: u8) -> Result<(), SyntaxError> {
        self.depth += 1;
        self.max_depth = self.max_depth.max(self.depth);
        if self.depth > MAX_DEPTH {
            return self
                .fail(format!("it is nested too deeply, the maximum is {MAX_DEPTH} levels"));
        }
        self.operand(min_precedence.max(POWER))?;
        loop {
            let (operation, precedence) = match self.peek() {
                Some('+') => (Operation::Add, SUM),
                Some('-') => (Operation::Subtract, SUM),
                Some('*' | '^') if self.power().is_some() => (Operation::Power, POWER),
                Some('*') => (Operation::Multiply, PRODUCT),
                Some('/') => (Operation::Divide, PRODUCT),
                _ => break,
            };
            if precedence < min_precedence {
                break;
            }
            self.position += self.power().map_or(1, str::len);
            self.binary(precedence + 1)?;
            self.emit(operation);
            if precedence == POWER && self.power().is_some() {
                return self.fail("put one of two powers in parentheses");
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Parses one operand. A sign applies to operators of at least `sign_precedence`; -v is 0 - v.
    fn operand(&mut self, sign_precedence: u8) -> Result<(), SyntaxError> {
        match self.peek() {
            Some('+') => {
                self.position += 1;
                self.binary(sign_precedence)
            }
            Some('-') => {
                self.position += 1;
                self.operations.push(Operation::Number(0.0));
                self.binary(sign_precedence)?;
                self.emit(Operation::Subtract);
                Ok(())
            }
            Some('(') => self.parentheses(),
            Some('0'..='9' | '.') => self.number(),
            Some(letter) if letter.is_alphabetic() => self.name(),
            Some(symbol) => self.fail(format!("expected a value, found '{symbol}'")),
            None => self.fail("it ends where a value is expected"),
        }
    }

    fn parentheses(&mut self) -> Result<(), SyntaxError> {
        self.position += 1;
        self.binary(SUM)?;
        match self.peek() {
            Some(')') => {
                self.position += 1;
                Ok(())
            }
            Some(symbol) => self.fail(format!("expected an operator or ')', found '{symbol}'")),
            None => self.fail("a ')' is missing"),
        }
    }

    /// Parses digits with an optional point and exponent: `12`, `.5`, `4.`, `1e-3`.
    fn number(&mut self) -> Result<(), SyntaxError> {
        let start = self.position;
        self.take_while(|c| c.is_ascii_digit() || c == '.');
        let mantissa_end = self.position;
        if !self.take_while(|c| matches!(c, 'e' | 'E')).is_empty() {
            self.take_while(|c| matches!(c, '+' | '-'));
            if self.take_while(|c| c.is_ascii_digit()).is_empty() {
                self.position = mantissa_end;
            }
        }
        let digits = &self.text[start..self.position];
        match digits.parse() {
            Ok(value) => self.operations.push(Operation::Number(value)),
            Err(_) => {
                self.position = start;
                return self.fail(format!("'{digits}' is not a number"));
            }
        }
        Ok(())
    }

    /// Parses u, a constant, or a function with its argument.
    fn name(&mut self) -> Result<(), SyntaxError> {
        let start = self.position;
        let name = self.take_while(|c| c.is_alphanumeric() || c == '_');
        if name == "u" {
            self.operations.push(Operation::U);
        } else if let Some((_, value)) = CONSTANTS.iter().find(|(known, _)| *known == name) {
            self.operations.push(Operation::Number(*value));
        } else if let Some(function) = FUNCTIONS.iter().find(|known| known.name == name) {
            self.argument(name)?;
            self.emit(Operation::Apply(function));
        } else {
            self.position = start;
            return self.fail(format!("unknown name '{name}'; the only variable is u"));
        }
        Ok(())
    }

    /// Parses the argument of a function; `ln -u` and `ln u^2` are ambiguous and refused.
    fn argument(&mut self, function: &str) -> Result<(), SyntaxError> {
        match self.peek() {
            Some('(') => return self.parentheses(),
            Some(c) if c.is_alphanumeric() || c == '.' => {
                self.binary(POWER + 1)?;
                if self.power().is_none() {
                    return Ok(());
                }
            }
            _ => {}
        }
        self.fail(format!("put the argument of {function} in parentheses"))
    }

    /// Appends an operation; if its operands are constant, they are replaced by the result.
    fn emit(&mut self, operation: Operation) {
        let operation = match (operation, self.operations.last()) {
            (Operation::Power, Some(&Operation::Number(exponent))) => {
                self.operations.pop();
                Operation::ConstantPower(exponent)
            }
            _ => operation,
        };
        let start = self.operations.len() - operation.operands();
        let is_constant = |operation: &Operation| matches!(operation, Operation::Number(_));
        let fold = self.operations[start..].iter().all(is_constant);
        self.operations.push(operation);
        if fold {
            let value = run::<2>(&self.operations[start..], 0.0).f;
            self.operations.truncate(start);
            self.operations.push(Operation::Number(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str, u: f64) -> f64 {
        Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).evaluate(u).f
    }

    fn error(text: &str) -> String {
        Expression::parse(text).err().unwrap().to_string()
    }

    #[test]
    fn operators_bind_as_in_mathematics() {
        let u = 1.7f64;
        for (text, expected) in [
            ("2+3*u", 2.0 + 3.0 * u),
            ("2-3-u", -1.0 - u),
            ("12/u/2", 6.0 / u),
            ("12/u*2", 24.0 / u),
            ("2*u^2", 2.0 * u * u),
            ("2*u**2", 2.0 * u * u),
            ("u ** (2 ** 3) * u", u.powi(9)),
            ("(u^2)^3", u.powi(6)),
            ("u^(2^3)", u.powi(8)),
            ("-u^2", -u * u),
            ("(-u)^2", u * u),
            ("2^-u", 2f64.powf(-u)),
            ("2^-u*3", 2f64.powf(-u) * 3.0),
            ("-u*3", -3.0 * u),
            ("u*-3", -3.0 * u),
            ("u--3", u + 3.0),
            ("+u", u),
            ("ln u*2", 2.0 * u.ln()),
            ("sqrt sqrt u", u.powf(0.25)),
            (" ( u\t- 1 )\n/ 2 ", (u - 1.0) / 2.0),
            (".5+4.+1e-3+2E2", 204.501),
            ("PI-π+TAU-τ+E-e+u", u),
        ] {
            let computed = value(text, u);
            assert!((computed - expected).abs() < 1e-12 * (1.0 + expected.abs()), "{text}");
        }
    }

    #[test]
    fn functions_have_the_values_of_the_standard_library() {
        let mut count = 0;
        let mut check = |name: &str, function: fn(f64) -> f64, x: f64| {
            let (computed, expected) = (value(&format!("{name}(u)"), x), function(x));
            assert!((computed - expected).abs() < 1e-14, "{name}: {computed} {expected}");
            count += 1;
        };
        macro_rules! check_all {
            ($($name:ident)*) => { $(check(stringify!($name), f64::$name, 0.6);)* };
        }
        check_all!(ln log2 log10 exp sqrt cbrt abs sin cos tan asin acos atan sinh cosh tanh);
        check_all!(asinh atanh signum floor ceil round trunc fract);
        check("log", f64::ln, 0.6);
        check("acosh", f64::acosh, 1.6);
        assert_eq!(count, FUNCTIONS.len());
    }

    #[test]
    fn step_functions_are_accepted_in_constants_only() {
        assert_eq!(Expression::parse("floor(2.5)*u").unwrap().evaluate(3.0).f1, 2.0);
        assert!(Expression::parse("floor(u)").unwrap().evaluate(3.0).f1.is_nan());
    }

    #[test]
    fn errors_name_the_problem_and_its_position() {
        for (text, expected) in [
            ("", "it ends where a value is expected (character 1)"),
            ("u*ln(u", "a ')' is missing (character 7)"),
            ("π*u)", "there is no '(' for this ')' (character 4)"),
            ("2u", "expected an operator, found 'u' (character 2)"),
            ("u*/2", "expected a value, found '/' (character 3)"),
            ("(u;1)", "expected an operator or ')', found ';' (character 3)"),
            ("u*1.2.3", "'1.2.3' is not a number (character 3)"),
            ("u*ln(v)", "unknown name 'v'; the only variable is u (character 6)"),
            ("u^2^3", "put one of two powers in parentheses (character 4)"),
            ("u**2**3", "put one of two powers in parentheses (character 5)"),
            ("2^-u^3", "put one of two powers in parentheses (character 5)"),
            ("ln u^2", "put the argument of ln in parentheses (character 5)"),
            ("exp -u", "put the argument of exp in parentheses (character 5)"),
            ("exp", "put the argument of exp in parentheses (character 4)"),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
    }

    #[test]
    fn long_expressions_are_evaluated_or_refused() {
        assert_eq!(value(&["u"; 3000].join("+"), 2.0), 6000.0);
        assert_eq!(value(&["u"; 14].join("*"), 2.0), 2f64.powi(14));
        assert_eq!(value(&["(u+1)"; 60].join("*"), 1.0), 2f64.powi(60));
        assert!(error(&["u"; 20_000].join("+")).contains("has 39999 bytes"));
    }

    #[test]
    fn deep_nesting_is_evaluated_or_refused() {
        let nested = |open: &str, n: usize| format!("{}u{}", open.repeat(n), ")".repeat(n));
        assert_eq!(value(&nested("(", 200), 2.0), 2.0);
        assert_eq!(value(&nested("1+(", 100), 2.0), 102.0);
        assert_eq!(value(&format!("{}u", "-".repeat(200)), 2.0), 2.0);
        for text in [
            nested("(", 5000),
            nested("1+(", 4000),
            nested("ln(", 4000),
            "ln ".repeat(5000),
            "-".repeat(5000),
        ] {
            assert!(error(&text).contains("nested too deeply, the maximum is 256 levels"));
        }
    }

    #[test]
    fn powers_have_derivatives_at_zero() {
        for (text, expected) in [
            ("(u-1)^0", [1.0, 0.0, 0.0]),
            ("(u-1)^1", [0.0, 1.0, 0.0]),
            ("(u-1)^2", [0.0, 0.0, 2.0]),
            ("(u-1)^3", [0.0, 0.0, 0.0]),
        ] {
            let Jet { f, f1, f2 } = Expression::parse(text).unwrap().evaluate(1.0);
            assert_eq!([f, f1, f2], expected, "{text}");
        }
    }

    proptest! {
        /// Any text is evaluated or refused; the stack of a program is never too small.
        #[test]
        fn no_text_is_too_strange(
            parts in prop::collection::vec(
                prop::sample::select(vec!["u", "1", ".5", "e", "+", "-", "*", "/", "^", "(", ")", "ln", " "]),
                0..60,
            )
        ) {
            if let Ok(expression) = Expression::parse(&parts.concat()) {
                expression.evaluate(1.5);
            }
        }

        /// f' and f'' equal central differences of f and f' for every function and operator.
        #[test]
        fn derivatives_match_finite_differences(u in 0.2f64..0.8) {
            let operators = "exp(u)+sin(u) exp(u)-sin(u) exp(u)*sin(u) exp(u)/(1+sin(u)) -exp(u*u) \
                u^u 2^(u*u) (1+u*u)^3 (1+u*u)^-2 (1+u*u)^2.5 (1+u*u)^1 (1+u*u)^0 (u-0.9)^3 \
                (1+u*u)^sin(u) acosh(1.1+u*u) 5";
            let smooth = FUNCTIONS.iter().filter(|g| g.name != "acosh" && !(g.jet)(0.5)[1].is_nan());
            let functions = smooth.map(|g| format!("{}(u*u/2+u/4)", g.name));
            for text in functions.chain(operators.split_whitespace().map(String::from)) {
                let expression = Expression::parse(&text).unwrap();
                let [low, jet, high] = [u - 1e-5, u, u + 1e-5].map(|u| expression.evaluate(u));
                for (derivative, low, high) in [(jet.f1, low.f, high.f), (jet.f2, low.f1, high.f1)] {
                    let difference = (high - low) / 2e-5;
                    let error = (derivative - difference).abs() / (1.0 + difference.abs());
                    prop_assert!(error < 1e-6, "{text} at {u}: {derivative} {difference}");
                }
            }
        }
    }
}
