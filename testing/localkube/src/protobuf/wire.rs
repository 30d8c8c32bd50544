//! The wire format of protobuf: fields with a tag, each a number or bytes.

use super::DecodeError;

/// The content of a field.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Datum<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Datum<'a> {
    pub fn bytes(&self) -> Result<&'a [u8], DecodeError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err(DecodeError::Malformed),
        }
    }

    /// Negative numbers are two's complement.
    pub fn number(&self) -> Result<i64, DecodeError> {
        match self {
            Self::Number(number) => Ok(number.cast_signed()),
            Self::Bytes(_) => Err(DecodeError::Malformed),
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Number(0) | Self::Bytes([]))
    }
}

/// The fields of a message in order, with their tags.
pub(super) fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Datum<'_>)>, DecodeError> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let datum = match key & 7 {
            0 => Datum::Number(varint(&mut bytes)?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).map_err(|_| DecodeError::Malformed)?;
                let (content, rest) = bytes.split_at_checked(length).ok_or(DecodeError::Malformed)?;
                bytes = rest;
                Datum::Bytes(content)
            }
            _ => return Err(DecodeError::Malformed),
        };
        found.push((key >> 3, datum));
    }
    Ok(found)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, DecodeError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(DecodeError::Malformed)?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(DecodeError::Malformed)
}
