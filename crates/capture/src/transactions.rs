//! Follows the transactions of a captured connection, for the replay and for the front end's plan.

use crate::class::{Class, Effect, Statement};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransactionState {
    open: bool,
    explicit: bool,
    locked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub ends_before: bool,
    pub stays: bool,
}

impl TransactionState {
    pub fn is_open(self) -> bool {
        self.open
    }

    pub fn step(&mut self, statement: Statement, autocommit: bool) -> Step {
        let Statement { class, effect, .. } = statement;
        let implicit = self.open && !self.explicit;
        let locked = self.locked && effect != Effect::Begin;
        let ends_before = matches!(effect, Effect::Begin | Effect::Lock) || implicit && autocommit && !locked;
        self.open &= !ends_before;
        let stays = match effect {
            Effect::Begin | Effect::Chain | Effect::Lock => true,
            Effect::Unlock => self.open && !locked,
            Effect::End | Effect::Commits => locked,
            Effect::Inside => self.open || !autocommit && class != Class::Session,
        };
        self.locked = stays && (locked || effect == Effect::Lock);
        if stays {
            self.explicit |= matches!(effect, Effect::Begin | Effect::Chain | Effect::Lock);
            self.explicit &= self.open || effect != Effect::Inside;
        }
        self.open = stays;
        Step { ends_before, stays }
    }
}
