//! Follows the transactions of a captured connection, for the replay and for the front end's plan.

use crate::class::{Class, Effect, Statement};

/// Whether a connection is in a transaction, as far as its statements tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransactionState {
    open: bool,
    /// A statement opened it, not a disabled autocommit.
    explicit: bool,
    /// Tables are locked. The end of a transaction does not unlock them.
    locked: bool,
}

/// Where a statement stands relative to its connection's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The transaction before it ends first.
    pub ends_before: bool,
    /// The connection is in a transaction afterwards.
    pub stays: bool,
}

impl TransactionState {
    /// The connection is in a transaction, or has tables locked.
    pub fn is_open(self) -> bool {
        self.open
    }

    /// Takes the next statement of the connection.
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
