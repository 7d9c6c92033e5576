//! What a limit can count with an agent, and the costs of tokens whose costs the agent does not report.

use acp_proxy::Error;
use acp_wire::ErrorKind;
use acp_wire::printable::one_line;
use serde_json::json;

use super::Uncounted;
use super::entry::SessionTotals;
use super::evidence::Evidence;
use super::guard::{Guard, refusal};
use super::limits::{Amount, DEFAULT_CURRENCY, Limit};
use super::prices::{Priced, Prices};
use component_base::agents::AgentKind;
use component_base::usage::{Certainty, Delta};

/// After so many turns without a report, an agent that is known to report is treated as one that does not.
const SILENT_TURNS: u64 = 3;

/// The bit of `told` for the notice about a model without a price. The lower ones are for limits.
const UNPRICED: u32 = 1 << 31;

impl Guard {
    /// The names of the limits that are not countable.
    pub(super) fn uncountable(&self, can_count: impl Fn(&Limit) -> bool) -> Vec<&'static str> {
        let limits = self.rules.limits.iter();
        limits.filter(|limit| !can_count(limit)).map(|limit| limit.name).collect()
    }

    /// Whether the agent is known to report what a limit needs, or may do so.
    pub(super) fn can_count(&self, limit: &Limit) -> bool {
        let reporting = self.meter.reporting();
        let Amount::Money(money) = &limit.amount else { return reporting.has_tokens() };
        let prices = self.rules.prices.as_ref().filter(|it| it.currency == money.currency);
        let has_price =
            prices.is_some_and(|it| reporting.models != Some(false) || it.has_default());
        self.reports_cost(&money.currency) != Some(false) || (has_price && reporting.has_tokens())
    }

    /// Whether the agent reports costs in a currency. `None` if that is not known.
    fn reports_cost(&self, currency: &str) -> Option<bool> {
        // The agents that were measured report costs in USD.
        self.meter.reporting().cost.map(|cost| cost && currency == DEFAULT_CURRENCY)
    }

    /// Whether turns show that the agent reports what a limit needs. Before the end of the first turn, nothing is known.
    /// Agents that are known to report do not report each turn, such as one that runs a command.
    fn is_counted(&self, limit: &Limit, evidence: &Evidence) -> bool {
        let has_tokens = self.meter.reporting().has_tokens();
        let is_unknown = self.agent.kind == AgentKind::Other || !has_tokens;
        let is_silent = evidence.answered >= if is_unknown { 1 } else { SILENT_TURNS };
        let Amount::Money(money) = &limit.amount else { return evidence.reports > 0 || !is_silent };
        let prices = self.rules.prices.as_ref().filter(|it| it.currency == money.currency);
        if prices.is_some_and(|it| unpriced(it, evidence).is_some()) || is_unpaid(evidence) {
            return false;
        }
        let has_evidence = match self.reports_cost(&money.currency) {
            Some(true) => is_silent && (evidence.has_consumed || evidence.reports == 0),
            _ => (is_unknown && is_silent) || evidence.reports > 0,
        };
        evidence.currencies.contains(&money.currency) || !has_evidence
    }

    /// The names of the limits that are not counted: as the turns of the session show, or those of other sessions.
    fn uncounted(&self, totals: &SessionTotals) -> Vec<&'static str> {
        let all = [&totals.evidence, &self.evidence];
        self.uncountable(|limit| all.iter().all(|it| self.is_counted(limit, it)))
    }

    /// The model without a price that the agent has used. Empty if the agent names no model.
    fn unpriced<'a>(&'a self, totals: &'a SessionTotals) -> Option<&'a str> {
        let prices = self.rules.prices.as_ref()?;
        [&totals.evidence, &self.evidence].into_iter().find_map(|it| unpriced(prices, it))
    }

    /// Refuses a prompt if no limit is counted.
    pub(super) fn refuse_uncounted(&self, totals: &SessionTotals) -> Option<Error> {
        let names = self.uncounted(totals);
        if self.rules.uncounted == Uncounted::Allow || names.len() < self.rules.limits.len() {
            return None;
        }
        let (agent, names) = (self.agent_name(), names.join(", "));
        let (what, remedy) = match self.unpriced(totals) {
            Some("") => ("names no model".to_owned(), "add the table [model.\"*\"] to the prices"),
            Some(model) => (
                format!("uses the model {}, which has no price", one_line(model)),
                "add the model to the prices",
            ),
            None if is_unpaid(&totals.evidence) || is_unpaid(&self.evidence) => (
                "reports tokens, but no cost for them".to_owned(),
                "set the price of its model with --prices (0 for a free one)",
            ),
            None => (
                format!("does not report what is needed for {names}"),
                "use a limit that it reports",
            ),
        };
        let why = format!(
            "the agent {agent} {what}, so its last turn is not counted. To go on, {remedy}, or accept prompts that are not \
             counted with --uncounted allow"
        );
        Some(refusal(ErrorKind::BudgetSpent, &why, &json!({ "budget": names })))
    }

    /// Tells the user once in a session that the cost of a model is not counted, if prompts are sent nevertheless.
    pub(super) fn unpriced_notice(&self, session: &str, totals: &SessionTotals) -> Option<String> {
        let model = self.unpriced(totals)?;
        let names = self.uncounted(totals).join(", ");
        let is_told = || {
            self.sessions.with(session, |it| {
                let is_told = it.state.told & UNPRICED != 0;
                it.state.told |= UNPRICED;
                is_told
            })
        };
        if names.is_empty() || self.refuse_uncounted(totals).is_some() || is_told() {
            return None;
        }
        let what = match model {
            "" => "The agent names no model".to_owned(),
            model => format!("The model {} has no price", one_line(model)),
        };
        Some(format!("{what}: {names} does not count it"))
    }

    /// Calculates the cost of tokens whose cost the agent does not report, and how well it is known. An agent that
    /// reports costs may report zero for a model whose price it does not know.
    pub(super) fn price(&self, delta: &Delta) -> Option<(Priced, Certainty)> {
        let prices = self.rules.prices.as_ref()?;
        let is_reported = self.reports_cost(&prices.currency) == Some(true);
        let unpaid = self.sessions.with(&delta.session, |it| {
            let live = &mut it.state;
            if let Some(cost) = delta.cost.as_ref().filter(|it| it.currency == prices.currency) {
                // The first cost of a session that was used before is not zero, but unknown.
                let is_above_zero = cost.micros > 0 || delta.cost_certainty != Certainty::Exact;
                live.has_cost = Some(is_above_zero || live.has_cost == Some(true));
            }
            if delta.tokens.is_some_and(|it| it.total() > 0) {
                live.unpaid = Some(delta.clone());
            }
            let is_reported = is_reported || live.currencies.contains(&prices.currency);
            match live.has_cost {
                None if is_reported => None,
                Some(true) => {
                    live.unpaid = None;
                    None
                }
                _ => live.unpaid.take(),
            }
        })?;
        let priced = prices.cost(&unpaid);
        let certainty = match &priced.unpriced {
            Some(_) => unpaid.tokens_certainty.max(Certainty::AtLeast),
            None => unpaid.tokens_certainty,
        };
        Some((priced, certainty))
    }
}

/// The model of the last report, if it has no price. The user may have added it since.
fn unpriced<'a>(prices: &Prices, evidence: &'a Evidence) -> Option<&'a str> {
    evidence.unpriced.as_deref().filter(|model| !prices.has(model))
}

/// Whether the agent has reported no cost for the tokens of several turns.
fn is_unpaid(evidence: &Evidence) -> bool {
    evidence.unpaid >= SILENT_TURNS
}
