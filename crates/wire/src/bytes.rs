//! Reads the protocol's integers and strings. A read past the end is an error, never a panic.

/// Bytes that break the protocol: a bug, or a peer that is not a MySQL server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}: {why}")]
pub struct Malformed {
    pub what: &'static str,
    pub why: &'static str,
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

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn malformed(&self, why: &'static str) -> Malformed {
        Malformed { what: self.what, why }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.malformed("it is truncated")),
        }
    }

    pub(crate) fn skip_byte(&mut self, expected: u8) -> bool {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte == expected => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        match self.rest.split_first_chunk() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(self.malformed("it is truncated")),
        }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

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
        let length = self
            .rest
            .iter()
            .position(|&byte| byte == 0)
            .ok_or_else(|| self.malformed("a string lacks its terminating NUL"))?;
        let string = self.take(length)?;
        self.take(1)?;
        Ok(string)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

pub(crate) fn put_lenenc(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=0xfa => out.push(bytes[0]),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/bytes.rs"]
mod tests;
