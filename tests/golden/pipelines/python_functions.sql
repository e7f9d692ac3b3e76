-- udfs: functions.py
INSERT INTO output SELECT ride, initials(driver) AS short, fare_class(fare) AS class, with_tax(fare) AS taxed FROM rides WHERE seats > 2;
