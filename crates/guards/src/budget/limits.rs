//! Limits: how they are written, and what is spent of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use component_base::usage::{Certainty, Tokens};

/// A number of tokens, greater than zero: `50000`, `50k`, `1.5M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenLimit(pub u64);

/// An amount of money, greater than zero, in millionths: `5`, `2.50 USD`, `100 credits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Money {
    /// The amount in millionths.
    pub micros: u64,
    /// The currency. `USD` if the text names none.
    pub currency: String,
}

/// A percentage between 1 and 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percent(pub u8);

/// The currency of an amount without one.
pub const DEFAULT_CURRENCY: &str = "USD";

impl FromStr for TokenLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<TokenLimit, String> {
        let wrong =
            || format!("`{text}` is not a number of tokens; write one such as 50000, 50k or 1.5M");
        let text = text.trim();
        let (number, factor) = match text.char_indices().next_back() {
            Some((at, 'k' | 'K')) => (&text[..at], 1_000),
            Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
            _ => (text, 1),
        };
        let micros = decimal(number).ok_or_else(wrong)?;
        let product = u128::from(micros) * factor;
        let tokens = u64::try_from(product / 1_000_000).map_err(|_| wrong())?;
        match product % 1_000_000 == 0 && tokens > 0 {
            true => Ok(TokenLimit(tokens)),
            false => Err(wrong()),
        }
    }
}

impl FromStr for Money {
    type Err = String;

    fn from_str(text: &str) -> Result<Money, String> {
        let wrong = || {
            format!(
                "`{text}` is not an amount of money; write one such as 5, 2.50 USD or 100 credits"
            )
        };
        let trimmed = text.trim();
        let end =
            trimmed.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(trimmed.len());
        let (amount, unit) = trimmed.split_at(end);
        let unit = unit.trim();
        let is_word = |unit: &str| {
            unit.len() <= 32 && unit.chars().all(|it| it.is_alphanumeric() || "-_$€£".contains(it))
        };
        let micros = decimal(amount).filter(|micros| *micros > 0).ok_or_else(wrong)?;
        let currency = match unit {
            "" => DEFAULT_CURRENCY.to_owned(),
            code if code.len() == 3 && code.bytes().all(|it| it.is_ascii_alphabetic()) => {
                code.to_ascii_uppercase()
            }
            word if is_word(word) => word.to_owned(),
            _ => return Err(wrong()),
        };
        Ok(Money { micros, currency })
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Percent, String> {
        let number = text.trim().trim_end_matches('%').trim_end().parse::<u8>().ok();
        let number = number.filter(|it| (1..=100).contains(it));
        number.map(Percent).ok_or_else(|| {
            format!("`{text}` is not a percentage; write a whole number between 1 and 100")
        })
    }
}

/// Reads a decimal number with at most six places, in millionths.
fn decimal(text: &str) -> Option<u64> {
    let (whole, places) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    if !are_digits(whole) || !are_digits(places) || places.len() > 6 {
        return None;
    }
    let millionths: u64 = format!("{places:0<6}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(millionths)
}

impl fmt::Display for TokenLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", amount(self.micros), self.currency)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An amount with two places, or with as many as it needs.
pub fn amount(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let places = text.trim_end_matches('0').len().max(text.len() - 4);
    text[..places].to_owned()
}

/// A number with separators: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

macro_rules! written_as_text {
    ($($type:ty, $expected:literal);+) => {
        $(impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": ["string", "number"], "description": concat!("This is ", $expected, ".") })
            }
        }

        /// A text, or a plain number.
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                struct Reader;
                impl Visitor<'_> for Reader {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }

                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$type, E> {
                        self.visit_str(&number.to_string())
                    }

                    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<$type, E> {
                        self.visit_str(&number.to_string())
                    }

                    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<$type, E> {
                        self.visit_str(&number.to_string())
                    }
                }
                deserializer.deserialize_any(Reader).map_err(D::Error::custom)
            }
        })+
    };
}

written_as_text! {
    TokenLimit, "a number of tokens";
    Money, "an amount of money, such as \"2.50 USD\"";
    Percent, "a percentage between 1 and 100"
}

/// The time that a limit is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Period {
    /// A turn: a prompt and the agent's answer.
    Turn,
    /// A session, over all runs.
    Session,
    /// A day in the time zone of the user.
    Day,
}

impl Period {
    fn phrase(self) -> &'static str {
        match self {
            Period::Turn => "in this turn",
            Period::Session => "in this session",
            Period::Day => "today",
        }
    }
}

/// How much may be consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Amount {
    /// Tokens of all kinds.
    Tokens(u64),
    /// Money.
    Money(Money),
}

/// A limit of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The option that sets it.
    pub name: &'static str,
    /// The time that it is for.
    pub period: Period,
    /// How much may be consumed in that time.
    pub amount: Amount,
}

/// What was consumed in some time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sum {
    /// The tokens.
    pub tokens: Tokens,
    /// How well they are known.
    pub certainty: Certainty,
    /// The cost in millionths by currency, and how well it is known.
    pub costs: BTreeMap<String, (u64, Certainty)>,
}

impl Sum {
    /// Adds tokens.
    pub fn add_tokens(&mut self, tokens: &Tokens, certainty: Certainty) {
        self.tokens.add(tokens);
        self.certainty = self.certainty.max(certainty);
    }

    /// Adds a cost.
    pub fn add_cost(&mut self, currency: &str, micros: u64, certainty: Certainty) {
        let cost = self.costs.entry(currency.to_owned()).or_default();
        *cost = (cost.0.saturating_add(micros), cost.1.max(certainty));
    }

    /// An unknown part is missing.
    pub fn set_at_least(&mut self) {
        self.certainty = self.certainty.max(Certainty::AtLeast);
        let costs = self.costs.values_mut();
        costs.for_each(|(_, certainty)| *certainty = (*certainty).max(Certainty::AtLeast));
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &Sum) {
        self.add_tokens(&other.tokens, other.certainty);
        for (currency, (micros, certainty)) in &other.costs {
            self.add_cost(currency, *micros, *certainty);
        }
    }
}

/// A limit with what is spent of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The limit.
    pub limit: Limit,
    /// What is spent, in tokens or in millionths.
    pub spent: u64,
    /// How well that is known.
    pub certainty: Certainty,
}

impl Limit {
    /// The limit, with what is spent of it.
    pub fn account(&self, sum: &Sum) -> Account {
        let (spent, certainty) = match &self.amount {
            Amount::Tokens(_) => (sum.tokens.total(), sum.certainty),
            Amount::Money(money) => sum.costs.get(&money.currency).copied().unwrap_or_default(),
        };
        Account { limit: self.clone(), spent, certainty }
    }
}

impl Account {
    /// The limit in tokens or in millionths.
    pub fn most(&self) -> u64 {
        match &self.limit.amount {
            Amount::Tokens(tokens) => *tokens,
            Amount::Money(money) => money.micros,
        }
    }

    /// Whether the limit is reached.
    pub fn is_spent(&self) -> bool {
        self.spent >= self.most()
    }

    /// Whether this part of the limit is reached.
    pub fn has_reached(&self, percent: Percent) -> bool {
        u128::from(self.spent) * 100 >= u128::from(self.most()) * u128::from(percent.0)
    }

    /// The part that is spent, in whole percent.
    pub fn percent(&self) -> u128 {
        u128::from(self.spent) * 100 / u128::from(self.most().max(1))
    }

    /// The unit of `spent`: `tokens`, or a currency.
    pub fn unit(&self) -> &str {
        match &self.limit.amount {
            Amount::Tokens(_) => "tokens",
            Amount::Money(money) => &money.currency,
        }
    }

    /// What is spent and the limit, as numbers in `unit`.
    pub fn numbers(&self) -> (serde_json::Value, serde_json::Value) {
        let number = |value: u64| match &self.limit.amount {
            Amount::Tokens(_) => serde_json::Value::from(value),
            Amount::Money(_) => serde_json::Value::from(value as f64 / 1_000_000.0),
        };
        (number(self.spent), number(self.most()))
    }
}

/// `today: 12,000 of 100,000 tokens (12 %)`.
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: u64| match &self.limit.amount {
            Amount::Tokens(_) => grouped(value),
            Amount::Money(_) => amount(value),
        };
        let how = match self.certainty {
            Certainty::Exact => "",
            Certainty::AtLeast => "at least ",
            Certainty::Guess => "about ",
        };
        let (spent, most, unit) = (number(self.spent), number(self.most()), self.unit());
        let (phrase, percent) = (self.limit.period.phrase(), self.percent());
        write!(f, "{how}{spent} of {most} {unit} {phrase} ({percent} %)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_as_people_write_them() {
        for (text, tokens) in
            [("50000", 50_000), ("50k", 50_000), ("1.5M", 1_500_000), ("1", 1), ("0.5k", 500)]
        {
            assert_eq!(text.parse::<TokenLimit>().map(|it| it.0), Ok(tokens), "{text}");
        }
        for text in ["", "0", "-1", "k", "1.5", "1e6", "many", "0.0001k", "99999999999999999999"] {
            let why = text.parse::<TokenLimit>().expect_err(text);
            assert!(why.contains("50k"), "{why}");
        }
        for (text, micros, currency) in [
            ("5", 5_000_000, "USD"),
            ("2.50 usd", 2_500_000, "USD"),
            ("0.000001EUR", 1, "EUR"),
            ("100 credits", 100_000_000, "credits"),
        ] {
            let money = Money { micros, currency: currency.to_owned() };
            assert_eq!(text.parse::<Money>(), Ok(money), "{text}");
        }
        for text in [
            "",
            "0",
            "USD",
            "-5",
            "5 US dollars",
            "1.2.3",
            "5,50 EUR",
            "1.1234567",
            "18446744073709551615",
        ] {
            assert!(text.parse::<Money>().is_err(), "{text}");
        }
        assert_eq!("80 %".parse::<Percent>(), Ok(Percent(80)));
        assert!("0".parse::<Percent>().is_err() && "101".parse::<Percent>().is_err());
    }

    #[test]
    fn limits_are_texts_or_numbers_in_files() {
        #[derive(Debug, Deserialize, Serialize, PartialEq)]
        struct Limits {
            tokens: TokenLimit,
            cost: Money,
            warn: Percent,
        }
        for text in [
            "tokens = 50000\ncost = 2.5\nwarn = 80",
            "tokens = \"50k\"\ncost = \"2.50 USD\"\nwarn = \"80%\"",
        ] {
            let limits: Limits = toml::from_str(text).expect(text);
            assert_eq!(
                (limits.tokens.0, limits.cost.micros, limits.warn.0),
                (50_000, 2_500_000, 80)
            );
            let json = serde_json::to_value(&limits).expect("JSON");
            assert_eq!(serde_json::from_value::<Limits>(json).expect("the same"), limits);
        }
        for text in ["tokens = -1", "tokens = 0", "tokens = true"] {
            assert!(toml::from_str::<Limits>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_account_says_what_is_spent() {
        let mut sum = Sum::default();
        sum.add_tokens(&Tokens { input: 12_000, ..Tokens::default() }, Certainty::AtLeast);
        sum.add_cost("USD", 4_999_999, Certainty::Exact);
        sum.add_cost("EUR", 9_000_000, Certainty::Exact);
        let tokens =
            Limit { name: "tokens_per_day", period: Period::Day, amount: Amount::Tokens(100_000) };
        let account = tokens.account(&sum);
        assert_eq!(account.to_string(), "at least 12,000 of 100,000 tokens today (12 %)");
        let five = Amount::Money("5 USD".parse().expect("money"));
        let money = Limit { name: "cost_per_session", period: Period::Session, amount: five };
        let account = money.account(&sum);
        assert_eq!(account.to_string(), "4.999999 of 5.00 USD in this session (99 %)");
        assert!(
            !account.is_spent()
                && account.has_reached(Percent(80))
                && !account.has_reached(Percent(100))
        );
        sum.add_cost("USD", 1, Certainty::Exact);
        assert!(money.account(&sum).is_spent());
        assert_eq!(money.account(&sum).numbers(), (5.0.into(), 5.0.into()));
    }
}
