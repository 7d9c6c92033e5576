//! Prices of models, from a file of the user.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::limits::DEFAULT_CURRENCY;
use component_base::OptionError;
use component_base::options::TomlFile;
use component_base::usage::{Cost, Delta, Tokens};

/// The prices of models.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// The currency of all prices.
    #[serde(default = "default_currency")]
    pub currency: String,
    /// By name. A name that ends with `*` is for all names that begin so; `*` is also for agents that do not name
    /// the model.
    #[serde(default)]
    model: BTreeMap<String, Price>,
}

/// The prices of a model, for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Price {
    input: f64,
    output: f64,
    /// Tokens from the cache. As `input` if it is absent.
    cache_read: Option<f64>,
    /// Tokens that are written to the cache. As `input` if it is absent.
    cache_write: Option<f64>,
    /// Thoughts. As `output` if it is absent.
    thought: Option<f64>,
}

/// The cost of what was consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Priced {
    /// The cost of the models that have a price.
    pub cost: Cost,
    /// A model without a price. Empty if the agent does not name it.
    pub unpriced: Option<String>,
}

fn default_currency() -> String {
    DEFAULT_CURRENCY.to_owned()
}

impl Prices {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong, with the line.
    pub fn read(path: &Path) -> Result<Prices, OptionError> {
        let file = TomlFile::read(path)?;
        let mut prices: Prices = file.parse()?;
        prices.currency = prices.currency.trim().to_owned();
        if prices.currency.len() == 3 {
            prices.currency.make_ascii_uppercase();
        }
        if prices.currency.is_empty() {
            let line = file.line_of(&["currency"]);
            return Err(file.error(line, "the currency is empty; write one such as \"USD\""));
        }
        if prices.model.is_empty() {
            let why =
                "it has no prices; add a table such as [model.\"gpt-5\"] with input and output";
            return Err(file.error(1, why));
        }
        for (model, price) in &prices.model {
            if let Some((name, value)) = price.members().into_iter().find(|(_, it)| !is_price(*it))
            {
                let line = file.line_of(&["model", model, name]);
                let why =
                    format!("the price {value} is not valid; write the price of a million tokens");
                return Err(file.error(line, why));
            }
            if model.trim_end_matches('*').contains('*') {
                let line = file.line_of(&["model", model]);
                let why = format!(
                    "`{model}` has a * that is not at its end; only the end of a name can be left open"
                );
                return Err(file.error(line, why));
            }
        }
        Ok(prices)
    }

    /// Whether there is a price for agents that do not name their model.
    pub fn has_default(&self) -> bool {
        self.model.contains_key("*")
    }

    /// The cost of what was consumed.
    pub fn cost(&self, delta: &Delta) -> Priced {
        let tokens = delta.tokens.unwrap_or_default();
        let whole = [(String::new(), tokens)];
        let models = if delta.models.is_empty() { &whole[..] } else { &delta.models[..] };
        let (mut sum, mut named, mut most) = (0.0, 0_u64, 0.0_f64);
        let mut unpriced = None;
        for (model, tokens) in models {
            named = named.saturating_add(tokens.total());
            match self.find(model) {
                Some(price) => {
                    sum += price.of(tokens);
                    most = most.max(price.most());
                }
                // A model that has consumed nothing needs no price.
                None if tokens.total() == 0 => {}
                None => unpriced = Some(model.clone()),
            }
        }
        // Tokens that belong to no model have the highest price.
        sum += tokens.total().saturating_sub(named) as f64 * most;
        // Prices for a million tokens are millionths for a token.
        let cost = Cost { currency: self.currency.clone(), micros: sum.round() as u64 };
        Priced { cost, unpriced }
    }

    /// Whether a model has a price. The empty name is for agents that do not name their model.
    pub fn has(&self, model: &str) -> bool {
        self.find(model).is_some()
    }

    /// The price of a model: that of its name, or of the longest beginning of its name.
    fn find(&self, model: &str) -> Option<&Price> {
        let beginnings = self.model.iter().filter(|(name, _)| {
            name.strip_suffix('*').is_some_and(|beginning| model.starts_with(beginning))
        });
        self.model.get(model).or_else(|| Some(beginnings.max_by_key(|(name, _)| name.len())?.1))
    }
}

fn is_price(price: f64) -> bool {
    price.is_finite() && (0.0..=1_000_000_000.0).contains(&price)
}

impl Price {
    fn members(&self) -> [(&'static str, f64); 5] {
        [
            ("input", self.input),
            ("output", self.output),
            ("cache_read", self.cache_read.unwrap_or(self.input)),
            ("cache_write", self.cache_write.unwrap_or(self.input)),
            ("thought", self.thought.unwrap_or(self.output)),
        ]
    }

    fn of(&self, tokens: &Tokens) -> f64 {
        let [(_, input), (_, output), (_, cache_read), (_, cache_write), (_, thought)] =
            self.members();
        tokens.input as f64 * input
            + tokens.output as f64 * output
            + tokens.cache_read as f64 * cache_read
            + tokens.cache_write as f64 * cache_write
            + tokens.thought as f64 * thought
            // Tokens of an unknown kind have the highest price.
            + tokens.other as f64 * self.most()
    }

    /// The highest price of all kinds of tokens.
    fn most(&self) -> f64 {
        self.members().into_iter().map(|(_, price)| price).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::usage::{Certainty, Reading};

    fn read(name: &str, text: &str) -> Result<Prices, String> {
        let path = std::env::temp_dir().join(format!("prices-{name}-{}.toml", std::process::id()));
        std::fs::write(&path, text).expect("written");
        let read = Prices::read(&path).map_err(|error| error.why);
        std::fs::remove_file(&path).expect("ours");
        read
    }

    fn delta(models: &[(&str, Tokens)]) -> Delta {
        let mut tokens = Tokens::default();
        models.iter().for_each(|(_, it)| tokens.add(it));
        let models = models.iter().filter(|(name, _)| !name.is_empty());
        Delta {
            session: "s".to_owned(),
            tokens: Some(tokens),
            tokens_certainty: Certainty::Exact,
            models: models.map(|(name, tokens)| ((*name).to_owned(), *tokens)).collect(),
            cost: None,
            cost_certainty: Certainty::Exact,
            reading: Reading::default(),
        }
    }

    #[test]
    fn a_cost_is_the_tokens_times_the_price_of_each_model() {
        let prices = read(
            "cost",
            "[model.\"gpt-6\"]\ninput = 2.5\noutput = 10\ncache_read = 0.25\n[model.\"gpt-6-mini*\"]\ninput = 1\noutput = 1\n[model.\"g*\"]\ninput = 7\noutput = 7\n",
        )
        .expect("valid");
        let tokens = Tokens {
            input: 1000,
            output: 100,
            thought: 10,
            cache_read: 4000,
            cache_write: 2,
            other: 1,
        };
        let priced = |prices: &Prices, models: &[(&str, Tokens)]| {
            let Priced { cost, unpriced } = prices.cost(&delta(models));
            (cost.micros, unpriced)
        };
        assert_eq!(
            priced(&prices, &[("gpt-6", tokens)]),
            (2500 + 1000 + 100 + 1000 + 5 + 10, None)
        );
        let one = Tokens { input: 1, ..Tokens::default() };
        let several = [("gpt-6-mini-2026", one), ("gemini", one), ("gpt-6", one)];
        assert_eq!(priced(&prices, &several), (11, None), "1 + 7 + 2.5, rounded half up");
        let nothing = Tokens::default();
        assert_eq!(priced(&prices, &[("gpt-6", tokens), ("claude", nothing)]).1, None);
        let mixed = [("gemini", one), ("claude", one)];
        assert_eq!(priced(&prices, &mixed), (7, Some("claude".to_owned())));
        assert_eq!(priced(&prices, &[("", one)]), (0, Some(String::new())), "no model is named");
        assert!(!prices.has_default() && prices.has("gpt-7") && !prices.has("claude"));
        let all = read("all", "currency = \"eur\"\n[model.\"*\"]\ninput = 3\noutput = 3\n")
            .expect("valid");
        assert_eq!(priced(&all, &[("", one)]), (3, None));
        assert_eq!(all.currency, "EUR");
        // The tokens of the turn are more than those of its models.
        let tokens = Tokens { input: 3, ..Tokens::default() };
        let more = Delta { tokens: Some(tokens), ..delta(&[("gpt-6-mini", one), ("gpt-6", one)]) };
        assert_eq!(prices.cost(&more).cost.micros, 14, "1 + 2.5 + 10, rounded half up");
    }

    #[test]
    fn an_error_names_the_line() {
        for (name, text, line, part) in [
            ("empty", "", 1, "no prices"),
            ("field", "[model.x]\ninput = 1\noutput = 1\nimput = 1\n", 4, "did you mean `input`"),
            ("missing", "\n[model.x]\ninput = 1\n", 2, "output"),
            ("negative", "[model.x]\ninput = 1\noutput = -2\n", 3, "a million tokens"),
            ("infinite", "[model.x]\ninput = inf\noutput = 2\n", 2, "a million tokens"),
            ("star", "[model.\"a*b\"]\ninput = 1\noutput = 1\n", 1, "not at its end"),
            ("currency", "\ncurrency = \"\"\n[model.x]\ninput = 1\noutput = 1\n", 2, "currency"),
        ] {
            let why = read(name, text).expect_err(name);
            assert!(
                why.contains(&format!(".toml:{line}: ")) && why.contains(part),
                "{name}: {why}"
            );
        }
    }
}
