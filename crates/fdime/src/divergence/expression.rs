//! Expressions in u, compiled to a postfix program that evaluates f, f' and f'' together.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = power { ("*" | "/") power }
//! power   = operand [ "^" operand ]
//! operand = ("-" | "+") power | number | constant | "u" | "(" sum ")" | function "(" sum ")"
//! ```
//!
//! A function of a single number, constant or u needs no parentheses: `u*ln u`. Two powers do:
//! readers differ about `u^v^w`. Derivatives come
//! from forward-mode automatic differentiation: every value on the stack is a [`Jet`].

use std::f64::consts::{E, LN_2, LN_10, PI, TAU};
use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// The longest expression in bytes. It also bounds the number of operations.
const MAX_LENGTH: usize = 20_000;

/// The maximum nesting of parentheses, functions, signs and right operands. It bounds the parser's
/// recursion and, since each level holds at most one left operand, the stack of [`run`].
const MAX_DEPTH: usize = 256;

/// The stack size that suits most expressions, cheaper to clear than `MAX_DEPTH` values.
const SMALL_DEPTH: usize = 8;

/// The value, first and second derivative of a function at one point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Jet {
    pub f: f64,
    pub f1: f64,
    pub f2: f64,
}

impl Jet {
    const fn constant(value: f64) -> Self {
        Jet { f: value, f1: 0.0, f2: 0.0 }
    }

    /// g(f), given `[g, g', g'']` at f: (g(f))' = g' f' and (g(f))'' = g'' f'^2 + g' f''.
    fn compose(self, [g, g1, g2]: [f64; 3]) -> Self {
        Jet { f: g, f1: g1 * self.f1, f2: g2 * self.f1 * self.f1 + g1 * self.f2 }
    }

    /// f^c for a constant c.
    fn power_of(self, c: f64) -> Self {
        let power = |exponent: f64| {
            if exponent == exponent.trunc() && exponent.abs() <= 64.0 {
                self.f.powi(exponent as i32)
            } else {
                self.f.powf(exponent)
            }
        };
        // A vanishing coefficient must not meet the pole of 0^-1.
        let times = |coefficient: f64, exponent: f64| {
            if coefficient == 0.0 { 0.0 } else { coefficient * power(exponent) }
        };
        self.compose([power(c), times(c, c - 1.0), times(c * (c - 1.0), c - 2.0)])
    }

    /// f^g = e^h with h = g ln f: (e^h)' = e^h h' and (e^h)'' = e^h (h'^2 + h'').
    fn power(self, exponent: Jet) -> Self {
        let h = exponent * self.compose(ln(self.f));
        let value = self.f.powf(exponent.f);
        Jet { f: value, f1: value * h.f1, f2: value * (h.f1 * h.f1 + h.f2) }
    }
}

impl Neg for Jet {
    type Output = Jet;
    fn neg(self) -> Jet {
        Jet { f: -self.f, f1: -self.f1, f2: -self.f2 }
    }
}

impl Add for Jet {
    type Output = Jet;
    fn add(self, g: Jet) -> Jet {
        Jet { f: self.f + g.f, f1: self.f1 + g.f1, f2: self.f2 + g.f2 }
    }
}

impl Sub for Jet {
    type Output = Jet;
    fn sub(self, g: Jet) -> Jet {
        Jet { f: self.f - g.f, f1: self.f1 - g.f1, f2: self.f2 - g.f2 }
    }
}

impl Mul for Jet {
    type Output = Jet;
    /// (f g)'' = f'' g + 2 f' g' + f g''
    fn mul(self, g: Jet) -> Jet {
        Jet {
            f: self.f * g.f,
            f1: self.f1 * g.f + self.f * g.f1,
            f2: self.f2 * g.f + 2.0 * self.f1 * g.f1 + self.f * g.f2,
        }
    }
}

impl Div for Jet {
    type Output = Jet;
    /// With q = f / g: q' = (f' - q g') / g and q'' = (f'' - 2 q' g' - q g'') / g.
    fn div(self, g: Jet) -> Jet {
        let q = self.f / g.f;
        let q1 = (self.f1 - q * g.f1) / g.f;
        Jet { f: q, f1: q1, f2: (self.f2 - 2.0 * q1 * g.f1 - q * g.f2) / g.f }
    }
}

/// The value, first and second derivative of a function of one number.
type Function = fn(f64) -> [f64; 3];

const CONSTANTS: [(&str, f64); 6] =
    [("PI", PI), ("π", PI), ("E", E), ("e", E), ("TAU", TAU), ("τ", TAU)];

/// Functions by name. The last ones are constant between jumps, where they have no derivative:
/// NaN limits them to constant arguments.
const FUNCTIONS: [(&str, Function); 26] = [
    ("ln", ln),
    ("log", ln),
    ("log2", |x| ln(x).map(|d| d / LN_2)),
    ("log10", |x| ln(x).map(|d| d / LN_10)),
    ("exp", |x| [x.exp(); 3]),
    ("sqrt", |x| [x.sqrt(), 0.5 / x.sqrt(), -0.25 / (x * x.sqrt())]),
    ("cbrt", |x| [x.cbrt(), x.cbrt() / (3.0 * x), -2.0 * x.cbrt() / (9.0 * x * x)]),
    ("abs", |x| [x.abs(), x.signum(), 0.0]),
    ("sin", |x| [x.sin(), x.cos(), -x.sin()]),
    ("cos", |x| [x.cos(), -x.sin(), -x.cos()]),
    ("tan", tan),
    ("asin", asin),
    ("acos", |x| [x.acos(), -asin(x)[1], -asin(x)[2]]),
    ("atan", |x| [x.atan(), 1.0 / (1.0 + x * x), -2.0 * x / (1.0 + x * x).powi(2)]),
    ("sinh", |x| [x.sinh(), x.cosh(), x.sinh()]),
    ("cosh", |x| [x.cosh(), x.sinh(), x.cosh()]),
    ("tanh", tanh),
    ("asinh", |x| [x.asinh(), (x * x + 1.0).powf(-0.5), -x * (x * x + 1.0).powf(-1.5)]),
    ("acosh", |x| [x.acosh(), (x * x - 1.0).powf(-0.5), -x * (x * x - 1.0).powf(-1.5)]),
    ("atanh", |x| [x.atanh(), 1.0 / (1.0 - x * x), 2.0 * x / (1.0 - x * x).powi(2)]),
    ("signum", |x| [x.signum(), f64::NAN, f64::NAN]),
    ("floor", |x| [x.floor(), f64::NAN, f64::NAN]),
    ("ceil", |x| [x.ceil(), f64::NAN, f64::NAN]),
    ("round", |x| [x.round(), f64::NAN, f64::NAN]),
    ("trunc", |x| [x.trunc(), f64::NAN, f64::NAN]),
    ("fract", |x| [x.fract(), f64::NAN, f64::NAN]),
];

fn ln(x: f64) -> [f64; 3] {
    [x.ln(), 1.0 / x, -1.0 / (x * x)]
}

fn tan(x: f64) -> [f64; 3] {
    let slope = x.cos().powi(-2);
    [x.tan(), slope, 2.0 * x.tan() * slope]
}

fn tanh(x: f64) -> [f64; 3] {
    let slope = x.cosh().powi(-2);
    [x.tanh(), slope, -2.0 * x.tanh() * slope]
}

fn asin(x: f64) -> [f64; 3] {
    let slope = (1.0 - x * x).powf(-0.5);
    [x.asin(), slope, x * slope.powi(3)]
}

/// One step of a program: it replaces its operands on top of the stack by its result.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Number(f64),
    U,
    Negate,
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    PowerOf(f64),
    Apply(Function),
}

/// An expression in u, ready to be evaluated.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    operations: Vec<Operation>,
    /// An upper bound of the number of values on the stack.
    depth: usize,
}

impl Expression {
    /// Parses an expression; the error says what is wrong and where.
    pub(super) fn parse(text: &str) -> Result<Self, SyntaxError> {
        let mut parser = Parser { text, position: 0, depth: 0, max_depth: 0, operations: vec![] };
        if text.len() > MAX_LENGTH {
            let message = format!("it is too long: {} bytes, at most {MAX_LENGTH}", text.len());
            return Err(SyntaxError { message, position: None });
        }
        parser.binary(SUM)?;
        match parser.peek() {
            None => Ok(Expression { operations: parser.operations, depth: parser.max_depth }),
            Some(')') => Err(parser.error("there is no '(' for this ')'".into())),
            Some(symbol) => Err(parser.error(format!("expected an operator, found '{symbol}'"))),
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
}

/// Runs a program on a stack of N values.
fn run<const N: usize>(operations: &[Operation], u: f64) -> Jet {
    let mut stack = [Jet::constant(0.0); N];
    let mut size = 0;
    for operation in operations {
        let (result, operands) = match *operation {
            Operation::Number(value) => (Jet::constant(value), 0),
            Operation::U => (Jet { f: u, f1: 1.0, f2: 0.0 }, 0),
            Operation::Negate => (-stack[size - 1], 1),
            Operation::PowerOf(exponent) => (stack[size - 1].power_of(exponent), 1),
            Operation::Apply(g) => (stack[size - 1].compose(g(stack[size - 1].f)), 1),
            Operation::Add => (stack[size - 2] + stack[size - 1], 2),
            Operation::Subtract => (stack[size - 2] - stack[size - 1], 2),
            Operation::Multiply => (stack[size - 2] * stack[size - 1], 2),
            Operation::Divide => (stack[size - 2] / stack[size - 1], 2),
            Operation::Power => (stack[size - 2].power(stack[size - 1]), 2),
        };
        size = size + 1 - operands;
        stack[size - 1] = result;
    }
    stack[0]
}

/// The reason why an expression cannot be read, and the place of the problem in its text.
#[derive(Debug)]
pub(super) struct SyntaxError {
    message: String,
    /// Counted in characters from 1; `None` if the whole text is the problem.
    position: Option<usize>,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.position.map_or(Ok(()), |position| write!(f, " (character {position})"))
    }
}

/// The precedence of operators.
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

impl Parser<'_> {
    /// Skips spaces and returns the next character; `None` at the end.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.position..];
        self.position = self.text.len() - rest.trim_start().len();
        self.text[self.position..].chars().next()
    }

    fn error(&self, message: String) -> SyntaxError {
        let position = Some(self.text[..self.position].chars().count() + 1);
        SyntaxError { message, position }
    }

    /// Parses operands joined by operators of at least this precedence.
    fn binary(&mut self, min_precedence: u8) -> Result<(), SyntaxError> {
        self.depth += 1;
        self.max_depth = self.max_depth.max(self.depth);
        if self.depth > MAX_DEPTH {
            return Err(self.error(format!("it is nested too deeply: at most {MAX_DEPTH} levels")));
        }
        self.operand(min_precedence.max(POWER))?;
        loop {
            let (operation, precedence) = match self.peek() {
                Some('+') => (Operation::Add, SUM),
                Some('-') => (Operation::Subtract, SUM),
                Some('*') => (Operation::Multiply, PRODUCT),
                Some('/') => (Operation::Divide, PRODUCT),
                Some('^') => (Operation::Power, POWER),
                _ => break,
            };
            if precedence < min_precedence {
                break;
            }
            self.position += 1;
            self.binary(precedence + 1)?;
            self.emit(operation);
            if precedence == POWER && self.peek() == Some('^') {
                return Err(self.error("put one of two powers in parentheses".into()));
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Parses one operand; a sign applies to operators of at least `sign_precedence`.
    fn operand(&mut self, sign_precedence: u8) -> Result<(), SyntaxError> {
        match self.peek() {
            Some(sign @ ('-' | '+')) => {
                self.position += 1;
                self.binary(sign_precedence)?;
                if sign == '-' {
                    self.emit(Operation::Negate);
                }
                Ok(())
            }
            Some('(') => self.parentheses(),
            Some('0'..='9' | '.') => self.number(),
            Some(letter) if letter.is_alphabetic() || letter == '_' => self.name(),
            Some(symbol) => Err(self.error(format!("expected a value, found '{symbol}'"))),
            None => Err(self.error("it ends where a value is expected".into())),
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
            Some(symbol) => {
                Err(self.error(format!("expected an operator or ')', found '{symbol}'")))
            }
            None => Err(self.error("a ')' is missing".into())),
        }
    }

    /// Parses digits with an optional point and an optional exponent: 12, .5, 4., 1e-3.
    fn number(&mut self) -> Result<(), SyntaxError> {
        let rest = &self.text[self.position..];
        let digits = |from: usize| {
            let other = |c: char| !(c.is_ascii_digit() || c == '.');
            rest[from..].find(other).map_or(rest.len(), |length| from + length)
        };
        let mut end = digits(0);
        if let Some(exponent) = rest[end..].strip_prefix(['e', 'E']) {
            let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if unsigned.starts_with(|c: char| c.is_ascii_digit()) {
                end = digits(rest.len() - unsigned.len());
            }
        }
        match rest[..end].parse() {
            Ok(value) => {
                self.operations.push(Operation::Number(value));
                self.position += end;
                Ok(())
            }
            Err(_) => Err(self.error(format!("'{}' is not a number", &rest[..end]))),
        }
    }

    /// Parses u, a constant, or a function with its argument.
    fn name(&mut self) -> Result<(), SyntaxError> {
        let rest = &self.text[self.position..];
        let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let name = &rest[..length];
        let value = if name == "u" {
            Some(Operation::U)
        } else {
            let constant = CONSTANTS.iter().find(|(known, _)| *known == name);
            constant.map(|(_, value)| Operation::Number(*value))
        };
        if let Some(value) = value {
            self.operations.push(value);
            self.position += length;
            return Ok(());
        }
        let Some((_, function)) = FUNCTIONS.iter().find(|(known, _)| *known == name) else {
            let message = format!("unknown name '{name}'; the only variable is u");
            return Err(self.error(message));
        };
        self.position += length;
        self.argument(name)?;
        self.emit(Operation::Apply(*function));
        Ok(())
    }

    /// Parses the argument of a function. `ln -u` and `ln u^2` are refused: readers differ about
    /// what they mean.
    fn argument(&mut self, function: &str) -> Result<(), SyntaxError> {
        let ambiguous =
            || format!("put the argument of {function} in parentheses, as in {function}(u)");
        match self.peek() {
            Some('(') => return self.parentheses(),
            Some('+' | '-' | '*' | '/' | '^' | ')') | None => return Err(self.error(ambiguous())),
            Some(_) => self.binary(POWER + 1)?,
        }
        if self.peek() == Some('^') {
            return Err(self.error(ambiguous()));
        }
        Ok(())
    }

    /// Appends an operation; constant operands are replaced by its result.
    fn emit(&mut self, operation: Operation) {
        let (operation, operands) = match (operation, self.operations.last()) {
            (Operation::Power, Some(&Operation::Number(exponent))) => {
                self.operations.pop();
                (Operation::PowerOf(exponent), 1)
            }
            (Operation::Negate | Operation::Apply(_), _) => (operation, 1),
            _ => (operation, 2),
        };
        let start = self.operations.len() - operands;
        let is_number = |operation: &Operation| matches!(operation, Operation::Number(_));
        let constant = self.operations[start..].iter().all(is_number);
        self.operations.push(operation);
        if constant {
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
            ("12/u*2", 12.0 / u * 2.0),
            ("2*u^2", 2.0 * u * u),
            ("(u^2)^3", u.powi(6)),
            ("u^(2^3)", u.powi(8)),
            ("-u^2", -u * u),
            ("(-u)^2", u * u),
            ("2^-u", 2f64.powf(-u)),
            ("2^-(u^2)", 2f64.powf(-u * u)),
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
    fn every_function_has_the_value_of_its_name() {
        let x = 0.6f64;
        let functions: [(&str, f64); 26] = [
            ("ln", x.ln()),
            ("log", x.ln()),
            ("log2", x.log2()),
            ("log10", x.log10()),
            ("exp", x.exp()),
            ("sqrt", x.sqrt()),
            ("cbrt", x.cbrt()),
            ("abs", x),
            ("sin", x.sin()),
            ("cos", x.cos()),
            ("tan", x.tan()),
            ("asin", x.asin()),
            ("acos", x.acos()),
            ("atan", x.atan()),
            ("sinh", x.sinh()),
            ("cosh", x.cosh()),
            ("tanh", x.tanh()),
            ("asinh", x.asinh()),
            ("acosh", f64::NAN),
            ("atanh", x.atanh()),
            ("signum", 1.0),
            ("floor", 0.0),
            ("ceil", 1.0),
            ("round", 1.0),
            ("trunc", 0.0),
            ("fract", 0.6),
        ];
        assert_eq!(functions.map(|(name, _)| name), FUNCTIONS.map(|(name, _)| name));
        for (name, expected) in functions {
            let computed = value(&format!("{name}(u)"), x);
            assert!((computed - expected).abs() < 1e-14 || expected.is_nan(), "{name}: {computed}");
        }
        assert!((value("acosh(u)", 1.5) - 1.5f64.acosh()).abs() < 1e-14);
    }

    #[test]
    fn steps_are_accepted_in_constants_only() {
        assert_eq!(Expression::parse("floor(2.5)*u").unwrap().evaluate(3.0).f1, 2.0);
        assert!(Expression::parse("floor(u)").unwrap().evaluate(3.0).f1.is_nan());
    }

    #[test]
    fn errors_name_the_problem_and_its_place() {
        for (text, expected) in [
            ("", "it ends where a value is expected (character 1)"),
            ("u*ln(u", "a ')' is missing (character 7)"),
            ("π*u)", "there is no '(' for this ')' (character 4)"),
            ("2u", "expected an operator, found 'u' (character 2)"),
            ("u**2", "expected a value, found '*' (character 3)"),
            ("(u;1)", "expected an operator or ')', found ';' (character 3)"),
            ("1.2.3*u", "'1.2.3' is not a number (character 1)"),
            ("u*ln(v)", "unknown name 'v'; the only variable is u (character 6)"),
            ("u^2^3", "put one of two powers in parentheses (character 4)"),
            ("2^-u^3", "put one of two powers in parentheses (character 5)"),
            ("ln u^2", "put the argument of ln in parentheses, as in ln(u) (character 5)"),
            ("exp -u", "put the argument of exp in parentheses, as in exp(u) (character 5)"),
        ] {
            assert_eq!(error(text), expected, "{text}");
        }
    }

    #[test]
    fn long_expressions_are_fast_or_refused() {
        assert_eq!(value(&["u"; 3000].join("+"), 2.0), 6000.0);
        assert_eq!(value(&["u"; 14].join("*"), 2.0), 2f64.powi(14));
        assert_eq!(value(&["(u+1)"; 60].join("*"), 1.0), 2f64.powi(60));
        assert!(error(&["u"; 20_000].join("+")).contains("too long: 39999 bytes"));
    }

    #[test]
    fn deep_nesting_is_evaluated_or_refused() {
        let nested = |open: &str, n: usize| format!("{}u{}", open.repeat(n), ")".repeat(n));
        assert_eq!(value(&nested("(", 200), 2.0), 2.0);
        assert_eq!(value(&nested("1+(", 100), 2.0), 102.0);
        for text in [
            nested("(", 5000),
            nested("1+(", 4000),
            nested("ln(", 4000),
            "ln ".repeat(5000),
            "-".repeat(5000),
        ] {
            assert!(error(&text).contains("nested too deeply: at most 256 levels"));
        }
    }

    proptest! {
        /// f' and f'' equal central differences of f and f', for every function and operator.
        #[test]
        fn derivatives_match_finite_differences(u in 0.2f64..0.8) {
            let functions = FUNCTIONS.iter().filter(|(_, function)| function(1.5)[1].is_finite());
            let mut texts: Vec<String> =
                functions.map(|(name, _)| format!("{name}(u*u/2+u/4)")).collect();
            texts.retain(|text| !text.starts_with("acosh"));
            texts.extend(
                [
                    "acosh(1.1+u*u)",
                    "asin(u*u)",
                    "acos(u*u)",
                    "atanh(u*u)",
                    "exp(u)+sin(u)",
                    "exp(u)-sin(u)",
                    "exp(u)*sin(u)",
                    "exp(u)/(1+sin(u))",
                    "-exp(u*u)",
                    "u^u",
                    "2^(u*u)",
                    "(1+u*u)^3",
                    "(1+u*u)^-2",
                    "(1+u*u)^2.5",
                    "(1+u*u)^1",
                    "(1+u*u)^0",
                    "(1+u*u)^sin(u)",
                    "(u-0.9)^3",
                ]
                .map(String::from),
            );
            let h = 1e-5;
            for text in texts {
                let expression = Expression::parse(&text).unwrap();
                let (jet, low, high) =
                    (expression.evaluate(u), expression.evaluate(u - h), expression.evaluate(u + h));
                let f1 = (high.f - low.f) / (2.0 * h);
                let f2 = (high.f1 - low.f1) / (2.0 * h);
                prop_assert!((jet.f1 - f1).abs() < 1e-6 * (1.0 + f1.abs()), "{}: {} {}", text, jet.f1, f1);
                prop_assert!((jet.f2 - f2).abs() < 1e-6 * (1.0 + f2.abs()), "{}: {} {}", text, jet.f2, f2);
            }
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
}
