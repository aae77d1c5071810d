//! Reads the protocol's integers and strings. A read past the end is an error, never a panic.

/// Bytes that break the protocol: a bug, or a peer that is not a MySQL server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}: {why}")]
pub struct Malformed {
    pub what: &'static str,
    pub why: &'static str,
}

macro_rules! integers {
    ($($integer:ident)*) => {
        $(pub(crate) fn $integer(&mut self) -> Result<$integer, Malformed> {
            Ok($integer::from_le_bytes(self.array()?))
        })*
    };
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(payload: &'a [u8], what: &'static str) -> Self {
        Self { rest: payload, what }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn malformed(&self, why: &'static str) -> Malformed {
        Malformed { what: self.what, why }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.malformed("it is truncated"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn skip_byte(&mut self, expected: u8) -> bool {
        let skips = self.rest.first() == Some(&expected);
        self.rest = &self.rest[usize::from(skips)..];
        skips
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| self.malformed("it is truncated"))?;
        self.rest = rest;
        Ok(*taken)
    }

    integers! { u8 u16 u32 u64 }

    pub(crate) fn lenenc(&mut self) -> Result<u64, Malformed> {
        match self.u8()? {
            small @ 0..=0xfa => Ok(small.into()),
            0xfc => Ok(self.u16()?.into()),
            0xfd => {
                let [a, b, c] = self.array()?;
                Ok(u32::from_le_bytes([a, b, c, 0]).into())
            }
            0xfe => self.u64(),
            0xfb | 0xff => Err(self.malformed("a length-encoded integer begins with 0xfb or 0xff")),
        }
    }

    pub(crate) fn lenenc_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.lenenc()?;
        let length = usize::try_from(length).map_err(|_| self.malformed("a string does not fit in memory"))?;
        self.take(length)
    }

    pub(crate) fn nul_terminated(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.rest.iter().position(|&byte| byte == 0);
        let length = end.ok_or_else(|| self.malformed("a string lacks its terminating NUL"))?;
        let string = self.take(length)?;
        self.take(1)?;
        Ok(string)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

pub(crate) fn put_lenenc(out: &mut Vec<u8>, value: u64) {
    let (mark, length) = match value {
        0..=0xfa => (None, 1),
        0xfb..=0xffff => (Some(0xfc), 2),
        0x1_0000..=0xff_ffff => (Some(0xfd), 3),
        _ => (Some(0xfe), 8),
    };
    out.extend(mark);
    out.extend_from_slice(&value.to_le_bytes()[..length]);
}
