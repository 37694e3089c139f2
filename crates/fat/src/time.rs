//! Times in FAT: local time without zone, taken as UTC; 1980 to 2107; steps of 2 s (change), 10 ms
//! (creation), a day (access).

use nandkit_vfs::Timestamp;
use zerocopy::little_endian::U16;

use crate::layout::ShortEntry;

const NS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// 1980-01-01 and 2107-12-31 23:59:59 in seconds since 1970.
const FIRST: i64 = 315_532_800;
const LAST: i64 = 4_354_819_199;

/// Days since 1970 of a date (proleptic Gregorian).
const fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years start in March, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a day since 1970.
const fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + (month <= 2) as i64, month, day)
}

/// Encodes a time as date field, time field and tens of milliseconds within the 2 s step. Times
/// outside the range are clamped.
pub fn encode(time: Timestamp) -> (u16, u16, u8) {
    let seconds = time.0.div_euclid(NS).clamp(FIRST, LAST);
    let fraction = if time.0.div_euclid(NS) == seconds { time.0.rem_euclid(NS) } else { 0 };
    let (year, month, day) = date(seconds.div_euclid(DAY));
    let of_day = seconds.rem_euclid(DAY);
    let date = (year - 1980) << 9 | month << 5 | day;
    let time = ((of_day / 3600) << 11) | ((of_day / 60 % 60) << 5) | (of_day % 60 / 2);
    (date as u16, time as u16, ((of_day % 2) * 100 + fraction / 10_000_000) as u8)
}

/// Decodes the fields; impossible values are clamped, and a zero date is 1980-01-01.
pub fn decode(date: u16, time: u16, fine: u8) -> Timestamp {
    let (date, time) = (i64::from(date), i64::from(time));
    let day = days(1980 + (date >> 9), (date >> 5 & 15).clamp(1, 12), (date & 31).max(1));
    let seconds = (time >> 11).min(23) * 3600 + (time >> 5 & 63).min(59) * 60 + (time & 31).min(29) * 2;
    Timestamp((day * DAY + seconds) * NS + i64::from(fine.min(199)) * 10_000_000)
}

/// Sets the time of the last change.
pub fn set_modified(entry: &mut ShortEntry, time: Timestamp) {
    let (date, time, _) = encode(time);
    (entry.modified_date, entry.modified_time) = (U16::new(date), U16::new(time));
}

/// Sets the day of the last access.
pub fn set_accessed(entry: &mut ShortEntry, time: Timestamp) {
    entry.accessed_date = U16::new(encode(time).0);
}

/// Sets the time of creation.
pub fn set_created(entry: &mut ShortEntry, time: Timestamp) {
    let (date, time, fine) = encode(time);
    (entry.created_date, entry.created_time, entry.created_fine) = (U16::new(date), U16::new(time), fine);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        for (seconds, date, time) in [
            (FIRST, 0x0021, 0),
            (951_827_696, (20 << 9) | (2 << 5) | 29, (12 << 11) | (34 << 5) | 28),
            (LAST, (127 << 9) | (12 << 5) | 31, (23 << 11) | (59 << 5) | 29),
        ] {
            let (d, t, _) = encode(Timestamp(seconds * NS));
            assert_eq!((d, t), (date, time), "{seconds}");
            assert_eq!(decode(d, t, 0).0, (seconds & !1) * NS);
        }
    }

    #[test]
    fn every_day_of_the_range_comes_back() {
        for day in FIRST / DAY..=LAST / DAY {
            let time = Timestamp((day * DAY + 45_296) * NS);
            let (d, t, fine) = encode(time);
            assert_eq!(decode(d, t, fine), time);
        }
    }

    #[test]
    fn outside_the_range_the_nearest_end_and_nonsense_stays_in_range() {
        assert_eq!(encode(Timestamp(i64::MIN)), encode(Timestamp(FIRST * NS)));
        assert_eq!(encode(Timestamp(i64::MAX)).0, encode(Timestamp(LAST * NS)).0);
        assert_eq!(encode(Timestamp(FIRST * NS + 1_990_000_000)).2, 199);
        for date in (0..=u16::MAX).step_by(7) {
            let time = decode(date, date.rotate_left(5), 255);
            assert!(time.0 >= FIRST * NS && time.0 <= (LAST + 3 * DAY) * NS);
        }
    }
}
