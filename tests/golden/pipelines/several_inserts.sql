-- Three queries into one sink, and one of them reads a memory table.
CREATE TABLE carts (user TEXT, shop TEXT) WITH (connector = 'memory');
INSERT INTO carts SELECT user, shop FROM clicks WHERE page = 'cart';
INSERT INTO output SELECT 'order' AS what, shop FROM orders WHERE amount > 450;
INSERT INTO output SELECT 'click' AS what, shop FROM clicks WHERE page = 'home';
INSERT INTO output SELECT 'cart' AS what, shop FROM carts;
